/* A stand-in for AMD's HIP runtime library, of ROCm 5, or of ROCm 6 and later with -DROCM6. Its devices are one of CDNA,
   one of RDNA, and one that is too old; `fake_first` leaves out the first ones. */
#include "fake_gpu.h"

struct module { char entry[256]; };
static int current;

int hipInit(unsigned f) { NOTE("%u", f); return 0; }
int hipRuntimeGetVersion(int *v) { *v = 50221153; return 0; }
static int first;
void fake_first(int d) { first = d; }
int hipGetDeviceCount(int *n) { NOTE(""); *n = 3 - first; return 0; }
int hipDeviceGet(int *d, int n) { *d = n; return 0; }
int hipDeviceGetName(char *s, int n, int d) { snprintf(s, n, "%s", d ? "" : "Stand-in Instinct"); return 0; }
int hipDeviceGetUuid(char *s, int d) { memset(s, d ? 0 : 0xab, 16); return 0; } /* none told for the others */
int hipDeviceGetAttribute(int *v, int a, int d) {
    *v = a == 56 ? 1024 : a == 57 ? 2048 : a == 63 ? 104 : a == 74 ? 65536 : a == 87 ? (d ? 32 : 64) : -1;
    return 0;
}
int hipDeviceTotalMem(size_t *n, int d) { *n = (size_t)1 << 36; return 0; }
static void properties(char *p, int at, int d) {
    strcpy(p, "gfx1234 is part of this name");
    static const char *names[] = {"gfx90a:sramecc+:xnack-", "gfx1100", "gfx803"};
    strcpy(p + at, names[d + first]);
}
#ifdef ROCM6
int hipGetDevicePropertiesR0600(char *p, int d) { NOTE("%d", d); properties(p, 1160, d); return 0; }
#endif
int hipGetDeviceProperties(char *p, int d) { NOTE("%d", d); properties(p, 396, d); return 0; }
int hipSetDevice(int d) { NOTE("%d", d); current = d; return 0; }
int hipGetDevice(int *d) { *d = current; return 0; } /* not noted: each launch asks */
int hipDeviceSynchronize(void) { NOTE(""); return 0; }
int hipMemGetInfo(size_t *f, size_t *t) { *f = 123456; *t = (size_t)1 << 36; return 0; }
int hipMalloc(uint64_t *p, size_t n) { NOTE("%zu", n); return take(p, n); }
int hipMallocManaged(uint64_t *p, size_t n, unsigned f) { NOTE("%zu %u", n, f); return take(p, n); }
int hipHostMalloc(uint64_t *p, size_t n, unsigned f) { NOTE("%zu %u", n, f); return take(p, n); }
int hipFree(uint64_t p) { NOTE(""); free((void *)p); return 0; }
int hipHostFree(uint64_t p) { NOTE(""); free((void *)p); return 0; }
int hipMemsetD8Async(uint64_t p, unsigned char c, size_t n, void *s) { NOTE("%zu %p", n, s); return fill(p, c, 1, n, s); }
int hipMemsetD16Async(uint64_t p, unsigned short c, size_t n, void *s) { NOTE("%zu %p", n, s); return fill(p, c, 2, n, s); }
int hipMemsetD32Async(uint64_t p, int c, size_t n, void *s) { NOTE("%zu %p", n, s); return fill(p, (unsigned)c, 4, n, s); }
int hipPointerGetAttribute(int *v, int a, uint64_t p) { NOTE("%d", a); *v = 0; return 0; }
int hipMemcpyHtoD(uint64_t d, void *h, size_t n) { NOTE("%zu", n); memcpy((void *)d, h, n); return 0; }
int hipMemcpyDtoH(void *h, uint64_t d, size_t n) { NOTE("%zu", n); memcpy(h, (void *)d, n); return 0; }
int hipMemcpyHtoDAsync(uint64_t d, void *h, size_t n, void *s) { NOTE("%zu %p", n, s); memcpy((void *)d, h, n); return 0; }
int hipMemcpyDtoHAsync(void *h, uint64_t d, size_t n, void *s) { NOTE("%zu %p", n, s); memcpy(h, (void *)d, n); return 0; }
int hipMemcpyAsync(uint64_t d, uint64_t e, size_t n, int kind, void *s) { NOTE("%zu kind %d %p", n, kind, s); return copy(d, e, n, s); }
int hipMemcpyPeerAsync(uint64_t d, int to, uint64_t e, int from, size_t n, void *s) { NOTE("%d from %d %zu %p", to, from, n, s); return copy(d, e, n, s); }
int hipDeviceCanAccessPeer(int *can, int d, int e) { NOTE("%d %d", d, e); *can = 1; return 0; }
int hipDeviceEnablePeerAccess(int d, unsigned f) { NOTE("%d", d); return 704; }
int hipModuleLoadData(void **m, const char *code) {
    NOTE("%.4s on %d", code, current);
    *m = calloc(1, sizeof(struct module));
    return 0;
}
int hipModuleUnload(void *m) { NOTE(""); free(m); return 0; }
int hipModuleGetFunction(void **f, struct module *m, const char *name) {
    NOTE("%s", name);
    if (strncmp(name, "magpie_", 7)) return 500;
    strncpy(m->entry, name, sizeof m->entry - 1);
    *f = m;
    return 0;
}
int hipFuncGetAttribute(int *v, int a, void *f) { NOTE("%d", a); *v = 1024; return 0; }
int hipStreamCreateWithFlags(void **s, unsigned f) { NOTE("%u", f); *s = (void *)(f ? 0x88 : 0x77); return 0; }
int hipStreamDestroy(void *s) { NOTE("%p", s); return 0; }
int hipStreamSynchronize(void *s) { NOTE("%p", s); return 0; }
int hipStreamWaitEvent(void *s, void *e, unsigned f) { NOTE("%p", s); return 0; }
int hipEventCreateWithFlags(void **e, unsigned f) { NOTE("%u", f); *e = (void *)0x55; return 0; }
int hipEventRecord(void *e, void *s) { NOTE("%p", s); return 0; }
int hipEventSynchronize(void *e) { NOTE(""); return 0; }
int hipEventQuery(void *e) { NOTE(""); return 0; }
int hipEventElapsedTime(float *ms, void *a, void *b) { *ms = 2.5f; return 0; }
int hipEventDestroy(void *e) { return 0; }
int hipStreamBeginCapture(void *s, int mode) { NOTE("%p mode %d", s, mode); return begin_capture(s); }
int hipStreamGetCaptureInfo_v2(void *s, int *status, uint64_t *id, void **graph, void ***nodes, size_t *count) { return capture_info(s, status, nodes, count); }
int hipStreamIsCapturing(void *s, int *status) { *status = captured && s == captured_stream; return 0; }
int hipStreamEndCapture(void *s, struct graph **g) { int code = end_capture(s, g); NOTE("%p", s); return code; }
int hipGraphInstantiateWithFlags(struct graph **e, struct graph *g, unsigned long long f) { NOTE("%d nodes", g->count); return instantiate(e, g); }
int hipGraphLaunch(struct graph *e, void *s) { NOTE("%p", s); return run_graph(e); }
int hipGraphKernelNodeGetParams(struct node *n, struct node **p) { *p = n; return 0; }
int hipGraphExecKernelNodeSetParams(struct graph *e, struct node *n, struct node **p) { NOTE("%s", (*p)->entry); return set_node(e, n, p); }
int hipGraphDestroy(struct graph *g) { free(g); return 0; }
int hipGraphExecDestroy(struct graph *g) { free(g); return 0; }
const char *hipGetErrorName(int code) {
    return code == 2 ? "hipErrorOutOfMemory" : code == 100 ? "hipErrorNoDevice" : code == 209 ? "hipErrorNoBinaryForGpu"
         : code == 719 ? "hipErrorLaunchFailure" : "hipErrorUnknown";
}
const char *hipGetErrorString(int code) { return code == 719 ? "unspecified launch failure" : hipGetErrorName(code); }

int hipModuleLaunchKernel(struct module *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, void *stream, void **params, void **extra) {
    NOTE("%s grid %u,%u,%u block %u,%u,%u shared %u stream %p extra %p", f->entry, gx, gy, gz, bx, by, bz, shared, stream, (void *)extra);
    return launch(f->entry, gx, bx, params, stream);
}
