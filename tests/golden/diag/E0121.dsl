let fine = "a \" and a \\"
let a = "tab\t"
use "dir\file.dsl"
