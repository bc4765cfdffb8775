# fusec check --model c
# Which model?
model a { output x = ones [2] }
model b { output x = ones [2] }
