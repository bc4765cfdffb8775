let a = 1; let b = 2;
model m { input x : f32[4]; output y = x }
