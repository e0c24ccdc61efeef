"""The functions of mlx.* modules (specification, sections 8.2 to 8.8).

`maybe T` is T or TResult<T, gpu.TError>: what is differentiated may fail, and its gradient fails where it does.
"""

__all__ = ["ROWS"]

ROWS = """
mlx.array.@zeros<T>(shape: borrow Array<u64>) -> TResult<mlx.TArray<T>, gpu.TError> ; zeros
mlx.array.@ones<T>(shape: borrow Array<u64>) -> TResult<mlx.TArray<T>, gpu.TError> ; ones
mlx.array.@full<T>(shape: borrow Array<u64>, value: T) -> TResult<mlx.TArray<T>, gpu.TError> ; one value everywhere
mlx.array.@arange<T>(start: T, stop: T, step: T) -> TResult<mlx.TArray<T>, gpu.TError>
    ; start, start + step, ... up to stop, without it
mlx.array.@from_buffer<T>(buf: borrow gpu.TBuffer<T>, shape: borrow Array<u64>) -> TResult<mlx.TArray<T>, gpu.TError>
    ; a copy of a buffer
mlx.array.@to_buffer<T>(a: borrow mlx.TArray<T>, dev: borrow gpu.TDevice) -> TResult<gpu.TBuffer<T>, gpu.TError>
    ; a copy in a buffer
mlx.array.@shape<T>(a: borrow mlx.TArray<T>) -> Array<u64>         ; the length of each axis
mlx.array.@strides<T>(a: borrow mlx.TArray<T>) -> Array<u64>       ; the elements between neighbours along each axis
mlx.array.@ndim<T>(a: borrow mlx.TArray<T>) -> u32                 ; how many axes
mlx.array.@size<T>(a: borrow mlx.TArray<T>) -> u64                 ; how many elements
mlx.array.@dtype<T>(a: borrow mlx.TArray<T>) -> u32                ; the TypeId of the elements
mlx.array.@reshape<T>(a: borrow mlx.TArray<T>, shape: borrow Array<u64>) -> TResult<mlx.TArray<T>, gpu.TError>
    ; the elements in another shape
mlx.array.@transpose<T>(a: borrow mlx.TArray<T>) -> TResult<mlx.TArray<T>, gpu.TError> ; the axes in reverse order
mlx.array.@expand_dims<T>(a: borrow mlx.TArray<T>, axis: i32) -> TResult<mlx.TArray<T>, gpu.TError>
    ; with a new axis of length 1
mlx.array.@squeeze<T>(a: borrow mlx.TArray<T>, axis: i32) -> TResult<mlx.TArray<T>, gpu.TError>
    ; without an axis of length 1
mlx.array.@add<T>(a: borrow mlx.TArray<T>, b: borrow mlx.TArray<T>) -> TResult<mlx.TArray<T>, gpu.TError>
    ; a + b, element by element
mlx.array.@sub<T>(a: borrow mlx.TArray<T>, b: borrow mlx.TArray<T>) -> TResult<mlx.TArray<T>, gpu.TError> ; a - b
mlx.array.@mul<T>(a: borrow mlx.TArray<T>, b: borrow mlx.TArray<T>) -> TResult<mlx.TArray<T>, gpu.TError> ; a * b
mlx.array.@div<T>(a: borrow mlx.TArray<T>, b: borrow mlx.TArray<T>) -> TResult<mlx.TArray<T>, gpu.TError> ; a / b
mlx.array.@pow<T>(a: borrow mlx.TArray<T>, b: borrow mlx.TArray<T>) -> TResult<mlx.TArray<T>, gpu.TError>
    ; a to the power of b
mlx.array.@neg<T>(a: borrow mlx.TArray<T>) -> TResult<mlx.TArray<T>, gpu.TError> ; -a
mlx.array.@abs<T>(a: borrow mlx.TArray<T>) -> TResult<mlx.TArray<T>, gpu.TError> ; without signs
mlx.array.@exp<T>(a: borrow mlx.TArray<T>) -> TResult<mlx.TArray<T>, gpu.TError> ; e to the power of a
mlx.array.@log<T>(a: borrow mlx.TArray<T>) -> TResult<mlx.TArray<T>, gpu.TError> ; the natural logarithm
mlx.array.@sqrt<T>(a: borrow mlx.TArray<T>) -> TResult<mlx.TArray<T>, gpu.TError> ; the square root
mlx.array.@sum<T>(a: borrow mlx.TArray<T>, axis: i32) -> TResult<mlx.TArray<T>, gpu.TError> ; the sum along an axis
mlx.array.@mean<T>(a: borrow mlx.TArray<T>, axis: i32) -> TResult<mlx.TArray<T>, gpu.TError> ; the mean along an axis
mlx.array.@max<T>(a: borrow mlx.TArray<T>, axis: i32) -> TResult<mlx.TArray<T>, gpu.TError>
    ; the greatest along an axis
mlx.array.@min<T>(a: borrow mlx.TArray<T>, axis: i32) -> TResult<mlx.TArray<T>, gpu.TError> ; the least along an axis
mlx.array.@argmax<T>(a: borrow mlx.TArray<T>, axis: i32) -> TResult<mlx.TArray<i32>, gpu.TError>
    ; where the greatest stands
mlx.array.@argmin<T>(a: borrow mlx.TArray<T>, axis: i32) -> TResult<mlx.TArray<i32>, gpu.TError>
    ; where the least stands
mlx.array.@eval<T>(a: borrow mlx.TArray<T>) -> TResult<unit, gpu.TError> ; computes what was put off until now

mlx.linalg.@matmul<T>(a: borrow mlx.TArray<T>, b: borrow mlx.TArray<T>) -> TResult<mlx.TArray<T>, gpu.TError>
    ; the matrix product
mlx.linalg.@norm<T>(a: borrow mlx.TArray<T>) -> TResult<mlx.TArray<T>, gpu.TError> ; the root of the sum of squares
mlx.linalg.@inv<T>(a: borrow mlx.TArray<T>) -> TResult<mlx.TArray<T>, gpu.TError> ; the inverse matrix
mlx.linalg.@svd<T>(a: borrow mlx.TArray<T>) -> TResult<mlx.TSvdResult<T>, gpu.TError>
    ; the singular value decomposition
mlx.linalg.@solve<T>(a: borrow mlx.TArray<T>, b: borrow mlx.TArray<T>) -> TResult<mlx.TArray<T>, gpu.TError>
    ; x where a x = b

mlx.fft.@fft<T>(a: borrow mlx.TComplex<T>) -> TResult<mlx.TComplex<T>, gpu.TError>
    ; the discrete Fourier transform along the last axis
mlx.fft.@ifft<T>(a: borrow mlx.TComplex<T>) -> TResult<mlx.TComplex<T>, gpu.TError> ; its inverse
mlx.fft.@rfft<T>(a: borrow mlx.TArray<T>) -> TResult<mlx.TComplex<T>, gpu.TError>
    ; of real numbers: the first n / 2 + 1 coefficients
mlx.fft.@irfft<T>(a: borrow mlx.TComplex<T>, n: u64) -> TResult<mlx.TArray<T>, gpu.TError>
    ; its inverse: n real numbers

mlx.random.@normal<T>(shape: borrow Array<u64>) -> TResult<mlx.TArray<T>, gpu.TError>
    ; normally distributed, of mean 0 and deviation 1
mlx.random.@uniform<T>(shape: borrow Array<u64>, low: T, high: T) -> TResult<mlx.TArray<T>, gpu.TError>
    ; evenly distributed from low up to high, without it
mlx.random.@bernoulli(shape: borrow Array<u64>, p: f32) -> TResult<mlx.TArray<bool>, gpu.TError>
    ; true with the probability p
mlx.random.@seed(s: u64) -> unit                                   ; begins the sequence that belongs to s

mlx.nn.@relu<T>(x: borrow mlx.TArray<T>) -> TResult<mlx.TArray<T>, gpu.TError> ; max(x, 0)
mlx.nn.@gelu<T>(x: borrow mlx.TArray<T>) -> TResult<mlx.TArray<T>, gpu.TError>
    ; x times the normal distribution's share below x
mlx.nn.@sigmoid<T>(x: borrow mlx.TArray<T>) -> TResult<mlx.TArray<T>, gpu.TError> ; 1 / (1 + exp(-x))
mlx.nn.@tanh<T>(x: borrow mlx.TArray<T>) -> TResult<mlx.TArray<T>, gpu.TError> ; the hyperbolic tangent
mlx.nn.@softmax<T>(x: borrow mlx.TArray<T>, axis: i32) -> TResult<mlx.TArray<T>, gpu.TError>
    ; exp(x) by its sum along an axis
mlx.nn.@dropout<T>(x: borrow mlx.TArray<T>, p: f32) -> TResult<mlx.TArray<T>, gpu.TError>
    ; zeros with the probability p, and what is left grown by 1 / (1 - p)

mlx.nn.@linear(in_features: u64, out_features: u64) -> TResult<mlx.nn.TLinear, gpu.TError> ; a linear layer
mlx.nn.@linear_forward(layer: borrow mlx.nn.TLinear, input: borrow mlx.TArray<f32>)
    -> TResult<mlx.TArray<f32>, gpu.TError> ; its output
mlx.nn.@linear_weight(layer: borrow mlx.nn.TLinear) -> mlx.TArray<f32> ; its weight
mlx.nn.@linear_bias(layer: borrow mlx.nn.TLinear) -> mlx.TArray<f32> ; its bias
mlx.nn.@linear_parameters(layer: borrow mlx.nn.TLinear) -> Array<mlx.TArray<f32>> ; all that is learned, in this order

mlx.nn.@conv1d(in_ch: u64, out_ch: u64, kernel_size: u64) -> TResult<mlx.nn.TConv1d, gpu.TError>
    ; a convolution along one axis
mlx.nn.@conv1d_forward(layer: borrow mlx.nn.TConv1d, input: borrow mlx.TArray<f32>)
    -> TResult<mlx.TArray<f32>, gpu.TError> ; its output
mlx.nn.@conv1d_weight(layer: borrow mlx.nn.TConv1d) -> mlx.TArray<f32> ; its weight
mlx.nn.@conv1d_bias(layer: borrow mlx.nn.TConv1d) -> mlx.TArray<f32> ; its bias
mlx.nn.@conv1d_parameters(layer: borrow mlx.nn.TConv1d) -> Array<mlx.TArray<f32>> ; all that is learned, in this order

mlx.nn.@conv2d(in_ch: u64, out_ch: u64, kernel_size: u64) -> TResult<mlx.nn.TConv2d, gpu.TError>
    ; a convolution along two axes
mlx.nn.@conv2d_forward(layer: borrow mlx.nn.TConv2d, input: borrow mlx.TArray<f32>)
    -> TResult<mlx.TArray<f32>, gpu.TError> ; its output
mlx.nn.@conv2d_weight(layer: borrow mlx.nn.TConv2d) -> mlx.TArray<f32> ; its weight
mlx.nn.@conv2d_bias(layer: borrow mlx.nn.TConv2d) -> mlx.TArray<f32> ; its bias
mlx.nn.@conv2d_parameters(layer: borrow mlx.nn.TConv2d) -> Array<mlx.TArray<f32>> ; all that is learned, in this order

mlx.nn.@layer_norm(dims: u64) -> TResult<mlx.nn.TLayerNorm, gpu.TError> ; a normalisation of the last axis
mlx.nn.@layer_norm_forward(layer: borrow mlx.nn.TLayerNorm, input: borrow mlx.TArray<f32>)
    -> TResult<mlx.TArray<f32>, gpu.TError> ; its output
mlx.nn.@layer_norm_weight(layer: borrow mlx.nn.TLayerNorm) -> mlx.TArray<f32> ; its weight
mlx.nn.@layer_norm_bias(layer: borrow mlx.nn.TLayerNorm) -> mlx.TArray<f32> ; its bias
mlx.nn.@layer_norm_parameters(layer: borrow mlx.nn.TLayerNorm) -> Array<mlx.TArray<f32>>
    ; all that is learned, in this order

mlx.nn.@batch_norm(num_features: u64) -> TResult<mlx.nn.TBatchNorm, gpu.TError> ; a normalisation over the batch
mlx.nn.@batch_norm_forward(layer: borrow mlx.nn.TBatchNorm, input: borrow mlx.TArray<f32>)
    -> TResult<mlx.TArray<f32>, gpu.TError> ; its output
mlx.nn.@batch_norm_weight(layer: borrow mlx.nn.TBatchNorm) -> mlx.TArray<f32> ; its weight
mlx.nn.@batch_norm_bias(layer: borrow mlx.nn.TBatchNorm) -> mlx.TArray<f32> ; its bias
mlx.nn.@batch_norm_running_mean(layer: borrow mlx.nn.TBatchNorm) -> mlx.TArray<f32> ; its running_mean
mlx.nn.@batch_norm_running_var(layer: borrow mlx.nn.TBatchNorm) -> mlx.TArray<f32> ; its running_var
mlx.nn.@batch_norm_parameters(layer: borrow mlx.nn.TBatchNorm) -> Array<mlx.TArray<f32>>
    ; all that is learned, in this order

mlx.nn.@rnn(input_size: u64, hidden_size: u64) -> TResult<mlx.nn.TRnn, gpu.TError> ; a recurrent layer (tanh)
mlx.nn.@rnn_forward(layer: borrow mlx.nn.TRnn, input: borrow mlx.TArray<f32>) -> TResult<mlx.TArray<f32>, gpu.TError>
    ; its output
mlx.nn.@rnn_weight_ih(layer: borrow mlx.nn.TRnn) -> mlx.TArray<f32> ; its weight_ih
mlx.nn.@rnn_weight_hh(layer: borrow mlx.nn.TRnn) -> mlx.TArray<f32> ; its weight_hh
mlx.nn.@rnn_bias(layer: borrow mlx.nn.TRnn) -> mlx.TArray<f32>     ; its bias
mlx.nn.@rnn_parameters(layer: borrow mlx.nn.TRnn) -> Array<mlx.TArray<f32>> ; all that is learned, in this order

mlx.nn.@lstm(input_size: u64, hidden_size: u64) -> TResult<mlx.nn.TLstm, gpu.TError>
    ; a layer of long short-term memory
mlx.nn.@lstm_forward(layer: borrow mlx.nn.TLstm, input: borrow mlx.TArray<f32>)
    -> TResult<mlx.TArray<f32>, gpu.TError> ; its output
mlx.nn.@lstm_weight_ih(layer: borrow mlx.nn.TLstm) -> mlx.TArray<f32> ; its weight_ih
mlx.nn.@lstm_weight_hh(layer: borrow mlx.nn.TLstm) -> mlx.TArray<f32> ; its weight_hh
mlx.nn.@lstm_bias_ih(layer: borrow mlx.nn.TLstm) -> mlx.TArray<f32> ; its bias_ih
mlx.nn.@lstm_bias_hh(layer: borrow mlx.nn.TLstm) -> mlx.TArray<f32> ; its bias_hh
mlx.nn.@lstm_parameters(layer: borrow mlx.nn.TLstm) -> Array<mlx.TArray<f32>> ; all that is learned, in this order

mlx.nn.@gru(input_size: u64, hidden_size: u64) -> TResult<mlx.nn.TGru, gpu.TError> ; a layer of gated recurrent units
mlx.nn.@gru_forward(layer: borrow mlx.nn.TGru, input: borrow mlx.TArray<f32>) -> TResult<mlx.TArray<f32>, gpu.TError>
    ; its output
mlx.nn.@gru_weight_ih(layer: borrow mlx.nn.TGru) -> mlx.TArray<f32> ; its weight_ih
mlx.nn.@gru_weight_hh(layer: borrow mlx.nn.TGru) -> mlx.TArray<f32> ; its weight_hh
mlx.nn.@gru_bias_ih(layer: borrow mlx.nn.TGru) -> mlx.TArray<f32>  ; its bias_ih
mlx.nn.@gru_bias_hh(layer: borrow mlx.nn.TGru) -> mlx.TArray<f32>  ; its bias_hh
mlx.nn.@gru_parameters(layer: borrow mlx.nn.TGru) -> Array<mlx.TArray<f32>> ; all that is learned, in this order

mlx.nn.@transformer_encoder_layer(d_model: u64, nhead: u64) -> TResult<mlx.nn.TTransformerEncoderLayer, gpu.TError>
    ; self-attention and a feed-forward part
mlx.nn.@transformer_encoder_layer_forward(layer: borrow mlx.nn.TTransformerEncoderLayer, input: borrow
        mlx.TArray<f32>)
    -> TResult<mlx.TArray<f32>, gpu.TError> ; its output
mlx.nn.@transformer_encoder_layer_parameters(layer: borrow mlx.nn.TTransformerEncoderLayer) -> Array<mlx.TArray<f32>>
    ; all that is learned: self-attention, then feed-forward

mlx.nn.@embedding(num_embeddings: u64, dim: u64) -> TResult<mlx.nn.TEmbedding, gpu.TError>
    ; a row of numbers for each index
mlx.nn.@embedding_forward<I: int>(layer: borrow mlx.nn.TEmbedding, input: borrow mlx.TArray<I>)
    -> TResult<mlx.TArray<f32>, gpu.TError> ; its output, of indices
mlx.nn.@embedding_weight(layer: borrow mlx.nn.TEmbedding) -> mlx.TArray<f32> ; its weight
mlx.nn.@embedding_parameters(layer: borrow mlx.nn.TEmbedding) -> Array<mlx.TArray<f32>>
    ; all that is learned, in this order

mlx.nn.@multi_head_attention(d_model: u64, nhead: u64) -> TResult<mlx.nn.TMultiHeadAttention, gpu.TError>
    ; attention of several heads
mlx.nn.@multi_head_attention_forward(layer: borrow mlx.nn.TMultiHeadAttention, queries: borrow mlx.TArray<f32>, keys:
        borrow mlx.TArray<f32>, values: borrow mlx.TArray<f32>)
    -> TResult<mlx.TArray<f32>, gpu.TError> ; its output
mlx.nn.@multi_head_attention_q_proj(layer: borrow mlx.nn.TMultiHeadAttention) -> mlx.TArray<f32> ; its q_proj
mlx.nn.@multi_head_attention_k_proj(layer: borrow mlx.nn.TMultiHeadAttention) -> mlx.TArray<f32> ; its k_proj
mlx.nn.@multi_head_attention_v_proj(layer: borrow mlx.nn.TMultiHeadAttention) -> mlx.TArray<f32> ; its v_proj
mlx.nn.@multi_head_attention_out_proj(layer: borrow mlx.nn.TMultiHeadAttention) -> mlx.TArray<f32> ; its out_proj
mlx.nn.@multi_head_attention_parameters(layer: borrow mlx.nn.TMultiHeadAttention) -> Array<mlx.TArray<f32>>
    ; all that is learned, in this order

mlx.optim.@adam(lr: f32) -> TResult<mlx.optim.TAdam, gpu.TError>   ; Adam, with this learning rate
mlx.optim.@sgd(lr: f32, momentum: f32) -> TResult<mlx.optim.TSgd, gpu.TError> ; gradient descent with momentum
mlx.optim.@adamw(lr: f32, wd: f32) -> TResult<mlx.optim.TAdamW, gpu.TError> ; Adam with decay of the weights
mlx.optim.@step_adam(opt: mutborrow mlx.optim.TAdam, params: mutborrow Array<mlx.TArray<f32>>, grads: borrow
        Array<mlx.TArray<f32>>)
    -> TResult<unit, gpu.TError> ; one step: changes params by their gradients
mlx.optim.@step_sgd(opt: mutborrow mlx.optim.TSgd, params: mutborrow Array<mlx.TArray<f32>>, grads: borrow
        Array<mlx.TArray<f32>>)
    -> TResult<unit, gpu.TError> ; one step: changes params by their gradients
mlx.optim.@step_adamw(opt: mutborrow mlx.optim.TAdamW, params: mutborrow Array<mlx.TArray<f32>>, grads: borrow
        Array<mlx.TArray<f32>>)
    -> TResult<unit, gpu.TError> ; one step: changes params by their gradients

mlx.grad.@grad<T>(fn: borrow fn(mlx.TArray<T>, ...) -> maybe mlx.TArray<T>) -> fn(mlx.TArray<T>, ...)
    -> maybe mlx.TArray<T> ; the gradient by the first parameter of what gives one number
mlx.grad.@value_and_grad<T>(fn: borrow fn(mlx.TArray<T>, ...) -> maybe mlx.TArray<T>) -> fn(mlx.TArray<T>, ...)
    -> maybe mlx.TGradResult<T> ; that number, and the gradient
mlx.grad.@vjp<T>(fn: borrow fn(mlx.TArray<T>) -> maybe mlx.TArray<T>, primals: borrow mlx.TArray<T>, cotangents:
        borrow mlx.TArray<T>)
    -> TResult<mlx.TGradResult<T>, gpu.TError> ; the value, and the product of cotangents and Jacobian
mlx.grad.@jvp<T>(fn: borrow fn(mlx.TArray<T>) -> maybe mlx.TArray<T>, primals: borrow mlx.TArray<T>, tangents: borrow
        mlx.TArray<T>)
    -> TResult<mlx.TGradResult<T>, gpu.TError> ; the value, and the product of Jacobian and tangents
"""
