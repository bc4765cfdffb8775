fusec-profile 1
gpu H200
capability 9.0
