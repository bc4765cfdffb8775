fusec-profile 1
gpu H200
capability 9.0
driver 12.8
compiler 0.1.0
target sm_90a
timer events
product 512x768x64 batch 1 bf16 kn reads bf16[512,64],bf16[64,768] writes bf16[512,768] -> wgmma:128x256:64x256 of wgmma:128x256:64x256=12.34 mma:128x128:64x64=refused
produkt 1x1x1 -> mma:16x64:16x16 of mma:16x64:16x16=1
product 1x1x1 batch 1 bf16 kn
product 2x2x2 batch 1 bf16 kn -> mma of mma:16x64:16x16=1
product 2x2x2 batch 1 bf16 kn -> mma:16x64:16x16 mma:16x64:16x16=1
product 2x2x2 batch 1 bf16 kn -> mma:16x64:16x16 of mma:16x64:16x16=-1
product 2x2x2 batch 1 bf16 kn -> mma:16x64:16x16 of mma:16x64:16x16
product 512x768x64 batch 1 bf16 kn reads bf16[512,64],bf16[64,768] writes bf16[512,768] -> mma:16x64:16x16 of mma:16x64:16x16=1
