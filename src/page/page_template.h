// The files of this folder, as scripts/embed_page.cmake puts them into the program.
#pragma once

namespace gemm {
extern const char* const PAGE_HTML;
extern const char* const PAGE_CSS;
extern const char* const PAGE_JS;
}  // namespace gemm
