# Writes OUTPUT, a C++ file with the text of the files page.html, page.css and page.js of FOLDER.
set(text "#include \"page/page_template.h\"\n\nnamespace gemm {\n")
foreach(kind html css js)
  file(READ "${FOLDER}/page.${kind}" content)
  string(TOUPPER ${kind} name)
  string(APPEND text "const char* const PAGE_${name} = R\"~~~~(${content})~~~~\";\n")
endforeach()
file(WRITE "${OUTPUT}" "${text}}  // namespace gemm\n")
