/* The load generator of many quick benchmarks: a thread for every connection, one call after the other.
 * Usage: thread_client PORT CONNECTIONS BYTES SECONDS. Prints calls per second and its own CPU time per call, ns.
 * A peer to compare with; it shares no code with bytegauge. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static atomic_int go, stop;
static int port;
static size_t size;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double cpu(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static void *client(void *calls) {
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        perror("connect");
        exit(1);
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    char *buffer = calloc(1, size);
    while (!atomic_load(&go)) usleep(1000);
    long done = 0;
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        if (send(fd, buffer, size, MSG_NOSIGNAL) != (ssize_t)size) break;
        if (recv(fd, buffer, size, MSG_WAITALL) != (ssize_t)size) break;
        done++;
    }
    *(long *)calls = done;
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 5) return fprintf(stderr, "usage: thread_client PORT CONNECTIONS BYTES SECONDS\n"), 2;
    int connections = atoi(argv[2]);
    port = atoi(argv[1]);
    size = (size_t)atol(argv[3]);
    double seconds = atof(argv[4]);
    pthread_t *threads = calloc((size_t)connections, sizeof *threads);
    long *calls = calloc((size_t)connections, sizeof *calls);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 * 1024);
    for (int i = 0; i < connections; i++) {
        if (pthread_create(&threads[i], &small, client, &calls[i])) return perror("pthread_create"), 1;
    }
    usleep(200000);
    double begun = now(), used = cpu();
    atomic_store(&go, 1);
    usleep((useconds_t)(seconds * 1e6));
    atomic_store(&stop, 1);
    double took = now() - begun;
    used = cpu() - used;
    long sum = 0;
    for (int i = 0; i < connections; i++) {
        pthread_join(threads[i], NULL);
        sum += calls[i];
    }
    printf("%.1f %.1f\n", (double)sum / took, used * 1e9 / (double)(sum ? sum : 1));
    return 0;
}
