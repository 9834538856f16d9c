/* The loop that our floor is held against: one thread writes, one reads, and nothing is counted but calls and bytes.
 * Usage: stream_loop unix|tcp BYTES SECONDS WRITER_CPU READER_CPU. Prints bytes per second and the reader's CPU time
 * for a read, ns. A peer to compare with; it shares no code with bytegauge. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Seconds that do not count, and reads between two looks at the clock. */
#define WARMUP 0.3
#define LAP 64

static int out_fd, in_fd;
static size_t size;

static void die(const char *what) {
    perror(what);
    exit(1);
}

static double clock_s(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) < 0) die("sched_setaffinity");
}

/* Memory that was touched, so that no page of zeros stands in for it. */
static char *buffer(void) {
    char *bytes = malloc(size);
    if (!bytes) die("malloc");
    memset(bytes, 7, size);
    return bytes;
}

static void *writes(void *cpu) {
    pin(*(int *)cpu);
    char *bytes = buffer();
    while (write(out_fd, bytes, size) > 0) {}
    return NULL;
}

static void connect_unix(void) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0) die("socketpair");
    out_fd = pair[0];
    in_fd = pair[1];
}

static void connect_tcp(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    out_fd = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || out_fd < 0) die("socket");
    if (bind(listener, (struct sockaddr *)&address, length) < 0 || listen(listener, 1) < 0) die("listen");
    if (getsockname(listener, (struct sockaddr *)&address, &length) < 0) die("getsockname");
    if (connect(out_fd, (struct sockaddr *)&address, length) < 0) die("connect");
    in_fd = accept(listener, NULL, NULL);
    if (in_fd < 0) die("accept");
}

int main(int argc, char **argv) {
    if (argc != 6) return fprintf(stderr, "usage: stream_loop unix|tcp BYTES SECONDS WRITER_CPU READER_CPU\n"), 2;
    size = (size_t)atol(argv[2]);
    double seconds = atof(argv[3]);
    int writer_cpu = atoi(argv[4]);
    signal(SIGPIPE, SIG_IGN);
    strcmp(argv[1], "tcp") ? connect_unix() : connect_tcp();
    pthread_t writer;
    if (pthread_create(&writer, NULL, writes, &writer_cpu)) die("pthread_create");
    pin(atoi(argv[5]));
    char *bytes = buffer();
    double from = clock_s(CLOCK_MONOTONIC) + WARMUP, cpu = 0, until = from + seconds, now;
    long calls = 0, moved = 0;
    int counts = 0;
    do {
        for (int i = 0; i < LAP; i++) {
            ssize_t n = read(in_fd, bytes, size);
            if (n <= 0) die("read");
            moved += n;
        }
        calls += LAP;
        now = clock_s(CLOCK_MONOTONIC);
        if (!counts && now >= from) {
            counts = 1;
            calls = moved = 0;
            until = now + seconds;
            from = now;
            cpu = clock_s(CLOCK_THREAD_CPUTIME_ID);
        }
    } while (!counts || now < until);
    cpu = clock_s(CLOCK_THREAD_CPUTIME_ID) - cpu;
    printf("%.0f %.1f\n", (double)moved / (now - from), cpu * 1e9 / (double)calls);
    close(in_fd);
    return 0;
}
