// Inspections as one HTML page that needs no network: the template in src/page, and the data as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "harness/inspector.h"

namespace gemm {

class InspectionPage {
 public:
  explicit InspectionPage(nlohmann::ordered_json context);
  // With the requests and the timeline of Inspector::look_closer.
  void add(const Inspection& inspection);
  std::string text() const;

 private:
  int file(const sim::SourceLine& line);  // its index in the page; -1: unknown
  nlohmann::ordered_json place(const sim::SourceLine& line);
  nlohmann::ordered_json timeline(const sim::Timeline& timeline);

  nlohmann::ordered_json data_;
};

}  // namespace gemm
