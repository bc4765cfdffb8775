# fusec check -D N=2.5 -D rate=fast -D flag=1 -D label=seven
dim N = 4
let rate = 0.5, label = "one"
let flag = true
model m {
    x = ones [N]
    output x = ones [4] * rate
    if flag { output y = ones [if label == "seven" then 7 else 1] }
}
