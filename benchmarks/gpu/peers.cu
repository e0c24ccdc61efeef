// The kernels of kernels.py in CUDA C, statement for statement, for nvcc: what ours are compared with.
//
//     nvcc -O3 -arch=sm_90 -shared -Xcompiler -fPIC -o peers.so peers.cu
//
// nvcc contracts sums of products by default, as our kernels do with fastmath. Those are also compared with what
// `-use_fast_math` makes, since both then take denormals for zero where that is faster.

#include <cuda_runtime.h>

constexpr int TILE = 32;

__global__ void saxpy_kernel(float a, const float* __restrict__ x, float* __restrict__ y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}

__global__ void transpose_kernel(const float* __restrict__ x, float* __restrict__ y, int n) {
    __shared__ float tile[TILE][TILE + 1];
    int i = threadIdx.x, j = threadIdx.y;
    int column = blockIdx.x * TILE, row = blockIdx.y * TILE;
    for (int k = 0; k < TILE; k += 8) tile[j + k][i] = x[(row + j + k) * n + column + i];
    __syncthreads();
    for (int k = 0; k < TILE; k += 8) y[(column + j + k) * n + row + i] = tile[i][j + k];
}

__global__ void __launch_bounds__(TILE* TILE)
    matmul_kernel(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int n) {
    __shared__ float left[TILE][TILE], right[TILE][TILE];
    int i = threadIdx.x, j = threadIdx.y;
    int column = blockIdx.x * TILE + i, row = blockIdx.y * TILE + j;
    float s = 0;
    for (int k = 0; k < n; k += TILE) {
        left[j][i] = a[row * n + k + i];
        right[j][i] = b[(k + j) * n + column];
        __syncthreads();
        for (int m = 0; m < TILE; m++) s += left[j][m] * right[m][i];
        __syncthreads();
    }
    c[row * n + column] = s;
}

__global__ void mandelbrot_kernel(int* __restrict__ out, int width, int height, int most) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column < width && row < height) {
        float cr = -2.0f + column * (3.0f / width), ci = -1.5f + row * (3.0f / height);
        float zr = 0, zi = 0;
        int n = 0;
        while (n < most && zr * zr + zi * zi <= 4.0f) {
            float next = zr * zr - zi * zi + cr;
            zi = 2.0f * zr * zi + ci;
            zr = next;
            n++;
        }
        out[row * width + column] = n;
    }
}

__global__ void __launch_bounds__(256)
    nbody_kernel(const float* __restrict__ p, float* __restrict__ force, int n) {
    __shared__ float px[256], py[256], pz[256], pm[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    float x = p[i], y = p[n + i], z = p[2 * n + i];
    float fx = 0, fy = 0, fz = 0;
    for (int k = 0; k < n; k += 256) {
        px[t] = p[k + t];
        py[t] = p[n + k + t];
        pz[t] = p[2 * n + k + t];
        pm[t] = p[3 * n + k + t];
        __syncthreads();
        for (int m = 0; m < 256; m++) {
            float dx = px[m] - x, dy = py[m] - y, dz = pz[m] - z;
            float r = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
            float w = pm[m] * r * r * r;
            fx += w * dx;
            fy += w * dy;
            fz += w * dz;
        }
        __syncthreads();
    }
    force[i] = fx;
    force[n + i] = fy;
    force[2 * n + i] = fz;
}

// What the benchmark calls: device pointers, a size, a stream. Each gives the error of its launch.
extern "C" {

int saxpy(float a, const float* x, float* y, int n, cudaStream_t stream) {
    saxpy_kernel<<<(n + 255) / 256, 256, 0, stream>>>(a, x, y, n);
    return cudaGetLastError();
}

int transpose(const float* x, float* y, int n, cudaStream_t stream) {
    transpose_kernel<<<dim3(n / TILE, n / TILE), dim3(TILE, 8), 0, stream>>>(x, y, n);
    return cudaGetLastError();
}

int matmul(const float* a, const float* b, float* c, int n, cudaStream_t stream) {
    matmul_kernel<<<dim3(n / TILE, n / TILE), dim3(TILE, TILE), 0, stream>>>(a, b, c, n);
    return cudaGetLastError();
}

int mandelbrot(int* out, int n, int most, cudaStream_t stream) {
    mandelbrot_kernel<<<dim3((n + 15) / 16, (n + 15) / 16), dim3(16, 16), 0, stream>>>(out, n, n, most);
    return cudaGetLastError();
}

int nbody(const float* p, float* force, int n, cudaStream_t stream) {
    nbody_kernel<<<n / 256, 256, 0, stream>>>(p, force, n);
    return cudaGetLastError();
}
}
