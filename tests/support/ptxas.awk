# What `ptxas -v` says that no kernel may have: a stack frame (an array that registers were chosen for, or spills), spilled
# bytes, and notes (C7508: setmaxnreg ignored; C7510, C7514, C7515: wgmma serialised; all of C75xx).  One line each, with the
# kernel's name; exit status 1 if there is any, or there are other kernels than `kernels` says, if it does, or none.
#   awk -v what="gpt2 in bf16, sm_90a" [-v kernels=12] -f ptxas.awk LOG
function fault(text) { print what ": " text; bad = 1 }
/Function properties for / { name = $NF }
/ bytes stack frame, / {
    seen++
    if ($1 || $5 || $9) fault(name " has " $1 " bytes of stack, " $5 " of spill stores, " $9 " of spill loads")
}
/\(?C75[0-9][0-9]/ { fault($0) }
END {
    if (!seen || (kernels && seen != kernels)) fault(seen + 0 " kernels seen" (kernels ? ", not " kernels : ""))
    exit bad
}
