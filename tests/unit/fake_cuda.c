/* A stand-in for NVIDIA's driver library. */
#include "fake_gpu.h"

struct function { char entry[256]; };
struct module { char text[1 << 16]; struct function functions[4]; };

int cuInit(unsigned f) { NOTE("%u", f); return 0; }
int cuDriverGetVersion(int *v) { *v = 13000; return 0; }
static int devices = 1, peers;
void fake_devices(int n, int peer) { devices = n; peers = peer; }
int cuDeviceGetCount(int *n) { NOTE(""); *n = devices; return 0; }
int cuDeviceGet(int *d, int n) { *d = n; return 0; }
int cuDeviceGetName(char *s, int n, int d) { snprintf(s, n, "Stand-in %d", d); return 0; }
int cuDeviceGetUuid(char *s, int d) { memset(s, 0xab + d, 16); return 0; }
int cuDeviceGetAttribute(int *v, int a, int d) {
    *v = a == 1 ? 1024 : a == 16 ? 132 : a == 39 ? 2048 : a == 75 ? 9 : a == 76 ? 0 : a == 95 ? 1 : a == 97 ? 232448 : -1;
    return 0;
}
int cuDeviceTotalMem_v2(size_t *n, int d) { *n = (size_t)1 << 30; return 0; }
int cuDevicePrimaryCtxRetain(void **c, int d) { NOTE("%d", d); *c = (void *)(0x1000 + (uint64_t)d); return 0; }
static _Thread_local void *current;
int cuCtxSetCurrent(void *c) { NOTE("%p", c); current = c; return 0; }
int cuCtxGetCurrent(void **c) { *c = current; return 0; } /* not noted: each launch asks */
int cuCtxSynchronize(void) { NOTE(""); return 0; }
int cuMemGetInfo_v2(size_t *f, size_t *t) { *f = 123456; *t = (size_t)1 << 30; return 0; }
int cuMemAlloc_v2(uint64_t *p, size_t n) { NOTE("%zu", n); return take(p, n); }
int cuMemAllocManaged(uint64_t *p, size_t n, unsigned f) { NOTE("%zu %u", n, f); return take(p, n); }
int cuMemHostAlloc(uint64_t *p, size_t n, unsigned f) { NOTE("%zu %u", n, f); return take(p, n); }
int cuMemFree_v2(uint64_t p) { NOTE(""); free((void *)p); return 0; }
int cuMemFreeHost(uint64_t p) { NOTE(""); free((void *)p); return 0; }
int cuMemsetD8Async(uint64_t p, unsigned char c, size_t n, void *s) { NOTE("%zu %p", n, s); return fill(p, c, 1, n, s); }
int cuMemsetD16Async(uint64_t p, unsigned short c, size_t n, void *s) { NOTE("%zu %p", n, s); return fill(p, c, 2, n, s); }
int cuMemsetD32Async(uint64_t p, unsigned c, size_t n, void *s) { NOTE("%zu %p", n, s); return fill(p, c, 4, n, s); }
int cuMemcpyHtoD_v2(uint64_t d, void *h, size_t n) { NOTE("%zu", n); memcpy((void *)d, h, n); return 0; }
int cuMemcpyDtoH_v2(void *h, uint64_t d, size_t n) { NOTE("%zu", n); memcpy(h, (void *)d, n); return 0; }
int cuMemcpyHtoDAsync_v2(uint64_t d, void *h, size_t n, void *s) { NOTE("%zu %p", n, s); memcpy((void *)d, h, n); return 0; }
int cuMemcpyDtoHAsync_v2(void *h, uint64_t d, size_t n, void *s) { NOTE("%zu %p", n, s); memcpy(h, (void *)d, n); return 0; }
int cuMemcpyAsync(uint64_t d, uint64_t e, size_t n, void *s) { NOTE("%zu %p", n, s); return copy(d, e, n, s); }
int cuMemcpyPeerAsync(uint64_t d, void *to, uint64_t e, void *from, size_t n, void *s) { NOTE("%p from %p %zu %p", to, from, n, s); return copy(d, e, n, s); }
int cuDeviceCanAccessPeer(int *can, int d, int e) { NOTE("%d %d", d, e); *can = peers; return 0; }
int cuCtxEnablePeerAccess(void *c, unsigned f) { NOTE("%p", c); return 0; }
int cuModuleLoadDataEx(void **m, const char *text, unsigned n, int *kinds, void **values) {
    struct module *made = calloc(1, sizeof *made);
    strncpy(made->text, text, sizeof made->text - 1);
    const char *target = strstr(text, ".target ");
    if (n && kinds[0] == 5) strcpy(values[0], "ptxas said something");
    NOTE("%.13s", target ? target : "none");
    *m = made;
    return 0;
}
int cuModuleUnload(void *m) { NOTE(""); free(m); return 0; }
int cuModuleGetFunction(void **f, struct module *m, const char *name) {
    NOTE("%s", name);
    if (!strstr(m->text, name)) return 500;
    struct function *made = m->functions;
    while (made->entry[0] && strcmp(made->entry, name)) made++;
    strncpy(made->entry, name, sizeof made->entry - 1);
    *f = made;
    return 0;
}
int cuFuncGetAttribute(int *v, int a, void *f) { NOTE("%d", a); *v = 512; return 0; }
int cuFuncSetAttribute(void *f, int a, int v) { NOTE("%d %d", a, v); return 0; }
int cuStreamCreate(void **s, unsigned f) { NOTE("%u", f); *s = (void *)(f ? 0x88 : 0x77); return 0; }
int cuStreamDestroy_v2(void *s) { NOTE("%p", s); return 0; }
int cuStreamSynchronize(void *s) { NOTE("%p", s); return 0; }
int cuStreamWaitEvent(void *s, void *e, unsigned f) { NOTE("%p", s); return 0; }
int cuPointerGetAttribute(int *v, int a, uint64_t p) { NOTE("%d", a); *v = 0; return 0; }
int cuEventCreate(void **e, unsigned f) { *e = (void *)0x55; return 0; }
int cuEventRecord(void *e, void *s) { NOTE("%p", s); return 0; }
int cuEventSynchronize(void *e) { NOTE(""); return 0; }
int cuEventQuery(void *e) { NOTE(""); return 0; }
int cuEventElapsedTime(float *ms, void *a, void *b) { *ms = 2.5f; return 0; }
int cuEventDestroy_v2(void *e) { return 0; }
int cuStreamBeginCapture_v2(void *s, int mode) { NOTE("%p mode %d", s, mode); return begin_capture(s); }
int cuStreamGetCaptureInfo_v2(void *s, int *status, uint64_t *id, void **graph, void ***nodes, size_t *count) { return capture_info(s, status, nodes, count); }
int cuStreamIsCapturing(void *s, int *status) { *status = captured && s == captured_stream; return 0; }
int cuStreamEndCapture(void *s, struct graph **g) { int code = end_capture(s, g); NOTE("%p", s); return code; }
int cuGraphInstantiateWithFlags(struct graph **e, struct graph *g, unsigned long long f) { NOTE("%d nodes", g->count); return instantiate(e, g); }
int cuGraphLaunch(struct graph *e, void *s) { NOTE("%p", s); return run_graph(e); }
int cuGraphKernelNodeGetParams(struct node *n, struct node **p) { *p = n; return 0; }
int cuGraphExecKernelNodeSetParams(struct graph *e, struct node *n, struct node **p) { NOTE("%s", (*p)->entry); return set_node(e, n, p); }
int cuGraphDestroy(struct graph *g) { free(g); return 0; }
int cuGraphExecDestroy(struct graph *g) { free(g); return 0; }
int cuGetErrorName(int code, const char **s) {
    *s = code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : code == 100 ? "CUDA_ERROR_NO_DEVICE" : 0;
    return *s ? 0 : 1;
}
int cuGetErrorString(int code, const char **s) { *s = code == 700 ? "an illegal memory access was encountered" : 0; return *s ? 0 : 1; }

int cuLaunchKernel(struct function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **params, void **extra) {
    NOTE("%s grid %u,%u,%u block %u,%u,%u shared %u stream %p extra %p", f->entry, gx, gy, gz, bx, by, bz, shared, stream, (void *)extra);
    return launch(f->entry, gx, bx, params, stream);
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, void *f, int items, size_t shared) { NOTE("%d %zu", items, shared); *n = 2; return 0; }
int cuLaunchCooperativeKernel(struct function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                              unsigned shared, void *stream, void **params) {
    uint64_t word = *(uint64_t *)params[3];
    NOTE("%s grid %u,%u,%u block %u,%u,%u shared %u stream %p word %u", f->entry, gx, gy, gz, bx, by, bz, shared, stream, *(unsigned *)word);
    return 0;
}
