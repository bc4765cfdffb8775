fusec-profile 1
gpu H200
capability 9.0
driver 12.8
compiler 0.0.9
target sm_90a
timer counts
product 512x768x64 batch 1 bf16 kn reads bf16[512,64],bf16[64,768] writes bf16[512,768] -> wgmma:128x512:64x256 of wgmma:128x512:64x256=12.34 mma:128x128:64x64=refused
