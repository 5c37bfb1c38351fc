/* How many threads there should be, and why: what the program said, else the flags, else the processors that the process
 * may run on, cut to what its control group may use of them. Next: parallel.c. */
#include "base/private.h"

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST = 1024 };

static int count_processors(void) {
    for (int n = 1024; n <= 1 << 20; n *= 2) { /* the call refuses a set that is smaller than the kernel's */
        cpu_set_t *set = CPU_ALLOC(n);
        if (set == NULL) break;
        size_t bytes = CPU_ALLOC_SIZE(n);
        int count = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (count > 0) return count;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}

/* ---- control groups ---------------------------------------------------------------------------------------------- */
static bool read_line(const char *path, char *line, size_t bytes) {
    FILE *file = fopen(path, "re");
    if (file == NULL) return false;
    bool read = fgets(line, (int)bytes, file) != NULL;
    fclose(file);
    return read;
}

/* What one folder of a hierarchy allows, in processors; 0: no limit. */
static double quota_of_folder(const char *folder, bool second) {
    char path[4096 + 64], line[128];
    double quota = 0, period = 0;
    if (second) {
        snprintf(path, sizeof path, "%s/cpu.max", folder);
        if (!read_line(path, line, sizeof line) || sscanf(line, "%lf %lf", &quota, &period) != 2) return 0;
    } else {
        snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
        if (!read_line(path, line, sizeof line) || sscanf(line, "%lf", &quota) != 1) return 0;
        snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
        if (!read_line(path, line, sizeof line) || sscanf(line, "%lf", &period) != 1) return 0;
    }
    return quota > 0 && period > 0 ? quota / period : 0;
}

/* The least that the group or one above it allows. In a container the path may be that of the host, which is not there:
 * the folders above it are, up to the mount. */
static double quota_of_path(const char *mount, const char *group, bool second) {
    char folder[4096];
    double least = 0;
    size_t top = strlen(mount), n = (size_t)snprintf(folder, sizeof folder, "%s%s", mount, group);
    if (n >= sizeof folder) return 0;
    for (;;) {
        double quota = quota_of_folder(folder, second);
        if (quota > 0 && (least == 0 || quota < least)) least = quota;
        if (n <= top) return least;
        while (n > top && folder[--n] != '/') {}
        folder[n] = '\0';
    }
}

static bool has_cpu(const char *controllers) { /* "cpu" among "cpu,cpuacct" */
    for (const char *at = controllers; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        if (strcmp(at, "cpu") == 0 || strncmp(at, "cpu,", 4) == 0) return true;
    }
    return false;
}

double nx__cpu_quota(const char *root) {
    char path[4096], mount[4096], line[4096];
    double least = 0;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    if (file == NULL) return 0;
    while (fgets(line, sizeof line, file)) { /* number:controllers:path; version 2 has no controllers */
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (group == NULL) continue;
        *group++ = '\0';
        controllers++;
        group[strcspn(group, "\n")] = '\0';
        if (strcmp(group, "/") == 0) *group = '\0';
        bool second = *controllers == '\0';
        if (!second && !has_cpu(controllers)) continue;
        int n = snprintf(mount, sizeof mount, second ? "%s/sys/fs/cgroup" : "%s/sys/fs/cgroup/%s", root, controllers);
        if (n < 0 || n >= (int)sizeof mount) continue;
        double quota = quota_of_path(mount, group, second);
        if (quota > 0 && (least == 0 || quota < least)) least = quota;
    }
    fclose(file);
    return least;
}

/* ---- the answer ---------------------------------------------------------------------------------------------------- */
static int number_in(const char *text) { /* 0: none */
    char *end;
    long n = text ? strtol(text, &end, 10) : 0;
    return text && end != text && n > 0 ? (int)(n < MOST ? n : MOST) : 0;
}

int nx__cpus_usable(char *why, size_t bytes) {
    int processors = count_processors(), n = number_in(nx_flag.threads);
    double quota = nx__cpu_quota("");
    if (n) {
        snprintf(why, bytes, "NARTHEX_THREADS=%s", nx_flag.threads);
    } else if ((n = number_in(nx_flag.omp_threads))) {
        snprintf(why, bytes, "OMP_NUM_THREADS=%s", nx_flag.omp_threads);
    } else if (quota > 0 && quota < processors) {
        n = (int)quota + (quota > (int)quota);
        snprintf(why, bytes, "the control group may use %.2f of %d processors", quota, processors);
    } else {
        n = processors < MOST ? processors : MOST;
        snprintf(why, bytes, "the process may run on %d processor%s", processors, processors == 1 ? "" : "s");
    }
    return n;
}
