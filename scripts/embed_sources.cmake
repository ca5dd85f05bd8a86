# Writes OUTPUT, a C++ file with the sources that NVRTC compiles at run time: the tile layer's headers, in SOURCE/src or, of
# the host's, in STAND_INS; and of each rung that has one its [region kernel], named gemm_v29 after the rung's id.
cmake_minimum_required(VERSION 3.25)
set(pending tile/tile.cuh)
set(seen "")
set(entries "")
function(add_entry name content)
  # A string literal that GCC takes is of any length.
  string(APPEND entries "    {\"${name}\", R\"~~~~(${content})~~~~\"},\n")
  set(entries "${entries}" PARENT_SCOPE)
endfunction()
while(pending)
  list(POP_FRONT pending name)
  if(name IN_LIST seen OR name MATCHES "^sim/")  # the simulator stands in another branch
    continue()
  endif()
  list(APPEND seen ${name})
  if(EXISTS "${STAND_INS}/${name}")
    file(READ "${STAND_INS}/${name}" content)
  elseif(EXISTS "${SOURCE}/src/${name}")
    file(READ "${SOURCE}/src/${name}" content)
  else()
    set(content "")  # a header of the host's library, of which kernels use nothing
  endif()
  add_entry(${name} "${content}")
  string(REGEX MATCHALL "#include [<\"][^>\"\n]+[>\"]" includes "${content}")
  foreach(include IN LISTS includes)
    string(REGEX REPLACE "#include [<\"](.+)[>\"]" "\\1" include "${include}")
    list(APPEND pending ${include})
  endforeach()
endwhile()
file(GLOB rungs "${SOURCE}/kernels/v*.cu")
foreach(rung IN LISTS rungs)
  file(READ "${rung}" content)
  string(FIND "${content}" "// [region kernel]" begin)
  string(FIND "${content}" "// [/region kernel]" end)
  if(begin GREATER -1 AND end GREATER begin)
    math(EXPR length "${end} - ${begin}")
    string(SUBSTRING "${content}" ${begin} ${length} content)
    string(REGEX REPLACE ".*/(v[^_]+)_[^/]*$" "gemm_\\1" name "${rung}")
    add_entry(${name} "${content}")
  endif()
endforeach()
file(WRITE "${OUTPUT}" "#include \"jit/sources.h\"

namespace gemm {

const EmbeddedSource EMBEDDED_SOURCES[] = {
${entries}};
const int EMBEDDED_SOURCE_COUNT = sizeof EMBEDDED_SOURCES / sizeof *EMBEDDED_SOURCES;

}  // namespace gemm
")
