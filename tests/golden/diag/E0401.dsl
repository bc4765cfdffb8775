# Files that are used must exist.
use "no_such_file.dsl"
model m { output x = ones [2] }
