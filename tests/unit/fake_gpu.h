/* What the stand-ins for vendors' driver libraries share: memory is the host's, calls are written down, one kernel
   (magpie_saxpy) is run from the arguments that it is launched with, and any function can be told to fail. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char log_text[1 << 20];
static size_t log_used;
static char fail_name[64];
static int fail_code, sticky;

static int note(const char *name, const char *form, ...) {
    va_list args;
    va_start(args, form);
    log_used += snprintf(log_text + log_used, sizeof log_text - log_used, "%s ", name);
    log_used += vsnprintf(log_text + log_used, sizeof log_text - log_used, form, args);
    log_used += snprintf(log_text + log_used, sizeof log_text - log_used, "\n");
    va_end(args);
    if (!strcmp(fail_name, name)) {
        if (!sticky) fail_name[0] = 0;
        return fail_code;
    }
    return 0;
}
#define NOTE(...) do { int code_ = note(__func__, __VA_ARGS__); if (code_) return code_; } while (0)

const char *fake_log(void) { return log_text; }
void fake_reset(void) { log_used = 0; log_text[0] = 0; fail_name[0] = 0; }
static int fault;
void fake_fault(int on) { fault = on; }
void fake_fail(const char *name, int code, int forever) { strcpy(fail_name, name); fail_code = code; sticky = forever; }

static int take(uint64_t *p, size_t n) { *p = (uint64_t)aligned_alloc(256, (n + 255) / 256 * 256); return 0; }

static void run(const char *entry, unsigned blocks, unsigned block, void **params) {
    int64_t items = (int64_t)blocks * block;
    int by = 1; /* workgroups a block */
    if (sscanf(entry, "magpie_saxpy_by%d", &by) == 1 || !strcmp(entry, "magpie_saxpy")) {
        /* a, x, its extent and stride, y, its extent and stride; the number of workgroups */
        int64_t all = by > 1 ? *(int64_t *)params[7] * block : items;
        float a = *(float *)params[0], *x = *(float **)params[1], *y = *(float **)params[4];
        int64_t n = *(int64_t *)params[2], sx = *(int64_t *)params[3], sy = *(int64_t *)params[6];
        for (int64_t i = 0; i < n && i < all && i < items * by; i++) y[i * sy] += a * x[i * sx];
    }
    if (!strcmp(entry, "magpie_checked")) { /* x, its extent and stride, the record buffer */
        int *x = *(int **)params[0];
        uint64_t *records = *(uint64_t **)params[3];
        for (int64_t i = 0; i < *(int64_t *)params[1]; i++) x[i] = 7;
        if (fault) { /* site 1 with one value: workgroup 0, work-item 2, index 9 */
            uint64_t record[] = {1 | (uint64_t)1 << 32, 0, 2, 9};
            records[1] = 4;
            memcpy(records + 4, record, sizeof record);
        }
    }
}

/* Graphs: what is launched, copied or filled in the stream that is captured becomes a node, and runs when its graph is
   launched, from arguments as they were. An executable graph is a copy. A node's parameters are a pointer to it. */
struct node { char kind, entry[64]; unsigned grid, items; uint64_t values[8]; void *params[8]; uint64_t to, from, pattern; size_t n; };
struct graph { struct node nodes[64]; int count; };
static struct graph *captured;
static void *captured_stream;

static struct node *next_node(void *stream, char kind) {
    if (!captured || stream != captured_stream) return 0;
    struct node *made = &captured->nodes[captured->count++];
    made->kind = kind;
    return made;
}

static int launch(const char *entry, unsigned grid, unsigned items, void **params, void *stream) {
    struct node *made = next_node(stream, 'k');
    if (!made) { run(entry, grid, items, params); return 0; }
    strncpy(made->entry, entry, sizeof made->entry - 1);
    made->grid = grid;
    made->items = items;
    for (int i = 0; i < 7 + !!strstr(entry, "_by"); i++) memcpy(&made->values[i], params[i], i ? 8 : 4);
    return 0;
}

static int copy(uint64_t to, uint64_t from, size_t n, void *stream) {
    struct node *made = next_node(stream, 'c');
    if (!made) memmove((void *)to, (void *)from, n);
    else { made->to = to; made->from = from; made->n = n; }
    return 0;
}

static int fill(uint64_t to, uint64_t pattern, int size, size_t n, void *stream) {
    struct node *made = next_node(stream, 'f');
    if (made) { made->to = to; made->pattern = pattern; made->items = size; made->n = n; return 0; }
    for (size_t i = 0; i < n; i++) memcpy((char *)to + i * size, &pattern, size);
    return 0;
}

static int begin_capture(void *stream) {
    if (captured || !stream) return 900;
    captured = calloc(1, sizeof *captured);
    captured_stream = stream;
    return 0;
}

static int capture_info(void *stream, int *status, void ***nodes, size_t *count) {
    static void *last;
    *status = captured && stream == captured_stream;
    *count = *status && captured->count;
    if (*count) last = &captured->nodes[captured->count - 1];
    *nodes = &last;
    return 0;
}

static int end_capture(void *stream, struct graph **graph) {
    if (!captured || stream != captured_stream) return 903;
    *graph = captured;
    captured = 0;
    return 0;
}

static struct graph *last_graph; /* the one that was instantiated last */
static int instantiate(struct graph **made, struct graph *graph) {
    last_graph = graph;
    *made = malloc(sizeof *graph);
    memcpy(*made, graph, sizeof *graph);
    return 0;
}

static int run_graph(struct graph *g) {
    for (struct node *n = g->nodes; n < g->nodes + g->count; n++) {
        for (int i = 0; i < 8; i++) n->params[i] = &n->values[i];
        if (n->kind == 'k') run(n->entry, n->grid, n->items, n->params);
        if (n->kind == 'c') memmove((void *)n->to, (void *)n->from, n->n);
        if (n->kind == 'f') fill(n->to, n->pattern, n->items, n->n, 0);
    }
    return 0;
}

/* A node's number is the same in its graph and in the executable one; every graph has a place for 64. */
static int set_node(struct graph *executable, struct node *node, struct node **parameters) {
    for (int i = 0; i < 64; i++)
        if (node == &last_graph->nodes[i]) { executable->nodes[i] = **parameters; return 0; }
    return 1;
}
