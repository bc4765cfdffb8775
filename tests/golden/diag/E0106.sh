# A byte that is no UTF-8, after text that is.
printf '# caf\303\251\nlet a = 1\nlet b = "\377"\n'
