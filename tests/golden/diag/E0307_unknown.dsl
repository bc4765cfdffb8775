# fusec check -D Widht=3
let width = 4
model m { output x = ones [width] }
