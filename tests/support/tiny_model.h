/* A small classifier that trains, of up to 5 rows: two layers, a loss and probabilities. */
#ifndef FUSEC_TESTS_TINY_MODEL_H
#define FUSEC_TESTS_TINY_MODEL_H

static const char tiny_model[] = "dim B <= 5\n\n"
                                 "model tiny {\n"
                                 "    input image : f32[B, 6]\n"
                                 "    input label : i32[B] in 0..3\n"
                                 "    logits = linear(relu(linear(image, 4) as hidden), 3) as head\n"
                                 "    loss = mean(cross_entropy(logits, label))\n"
                                 "    output loss\n"
                                 "    output probability = softmax(logits)\n"
                                 "    train loss with adam(lr = hyper 0.05)\n"
                                 "}\n";

#endif
