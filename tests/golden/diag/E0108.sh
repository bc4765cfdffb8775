# 201 brackets inside each other.
awk 'BEGIN { printf "let a = "; for (i = 0; i < 201; i++) printf "("; print "1"; print "let b = ; never reached" }'
