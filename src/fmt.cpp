// fmt's functions, compiled once for programs and library, which needs no other library so.
//
// As headers alone fmt would be compiled in each file that formats a line: 3 s a file. Here all its
// inline functions are kept (-fkeep-inline-functions), and the other files only declare them.
#define FMT_HEADER_ONLY
#include <fmt/format.h>
