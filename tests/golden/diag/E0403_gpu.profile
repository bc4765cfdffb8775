fusec-profile 1
gpu A100
capability 8.0
driver 12.8
compiler 0.1.0
target sm_90a
timer events
