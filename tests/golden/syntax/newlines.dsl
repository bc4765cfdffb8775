


# comments and blank lines count for nothing
let a =
    1 +

    # even between
    2

let b = f(1
  , 2
  -3
  )
fn g(
    x,
    y = 2,
)
{
    if a and
       b
    {
        z = x
    }
    else if c
    { z = y
    }

    else
    {
    }
    w = if a
        then b
        else c
    s[i
      in 0..2] = x[
        i
    ]
    m <-
        3
    return z,
        w }
model empty {}
model one { output y = 1 }
dim A = 1,
    B <= 2
let last = x.
    dim(0)