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
