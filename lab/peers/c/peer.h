/* What the C programs of `cargo lab peers engines` share: arguments, sockets, and a counter that the runner reads.
 * Usage of all of them: PROGRAM MODE ROLE TRANSPORT SIZE CONNECTIONS COUNTER [ADDRESS]
 *   ROLE       writer, reader, client, server or relay
 *   TRANSPORT  unix, tcp or udp
 *   SIZE       bytes of a read and a write, of a message, or of a datagram
 *   COUNTER    a file of 8 bytes that receives the units moved so far, or -
 *   ADDRESS    where a writer, a client or a relay connects: 127.0.0.1:PORT, or @NAME for an abstract Unix socket
 * A program that listens prints where. None of them ends by itself; the runner kills it. They share no code with bytegauge. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* Both programs of a comparison use it: bbr, the default of some machines, paces by timers. */
#define CONGESTION "cubic"
/* Bytes of the largest receive of an echo server. */
enum { SERVER_READ = 16 * 1024, STACK = 128 * 1024, DESCRIPTORS = 4096 };

static struct {
    const char *mode, *role, *address;
    int is_unix;
    size_t size;
    int connections;
} asked;

static uint64_t uncounted;
static uint64_t *counter = &uncounted;

static _Noreturn void die(const char *what) {
    perror(what);
    exit(1);
}

/* One writer; the runner reads it from another process. */
static inline void counted(uint64_t units) {
    __atomic_store_n(counter, *counter + units, __ATOMIC_RELAXED);
}

static inline int is_role(const char *role) {
    return strcmp(asked.role, role) == 0;
}

static inline int is_mode(const char *mode) {
    return strcmp(asked.mode, mode) == 0;
}

static inline uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Memory that was touched: reads of a page of zeros would be cheaper. */
static inline char *memory(size_t bytes) {
    char *made = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (!made) die("aligned_alloc");
    memset(made, 7, bytes);
    return made;
}

static inline void arguments(int argc, char **argv) {
    if (argc < 7) {
        fprintf(stderr, "usage: %s MODE ROLE TRANSPORT SIZE CONNECTIONS COUNTER [ADDRESS]\n", argv[0]);
        exit(2);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_IGN);
    asked.mode = argv[1];
    asked.role = argv[2];
    asked.is_unix = strcmp(argv[3], "unix") == 0;
    asked.size = (size_t)atol(argv[4]);
    asked.connections = atoi(argv[5]);
    asked.address = argc > 7 ? argv[7] : "";
    if (strcmp(argv[6], "-") == 0) return;
    int fd = open(argv[6], O_RDWR);
    if (fd < 0) die(argv[6]);
    counter = mmap(NULL, sizeof *counter, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (counter == MAP_FAILED) die("mmap");
    close(fd);
}

union address {
    struct sockaddr any;
    struct sockaddr_in ip;
    struct sockaddr_un path;
};

static inline socklen_t parsed(union address *to, const char *text) {
    memset(to, 0, sizeof *to);
    if (*text == '@') {
        to->path.sun_family = AF_UNIX;
        strncpy(to->path.sun_path + 1, text + 1, sizeof to->path.sun_path - 2);
        return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(text));
    }
    const char *port = strrchr(text, ':');
    to->ip.sin_family = AF_INET;
    to->ip.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to->ip.sin_port = htons((unsigned short)atoi(port ? port + 1 : text));
    return sizeof to->ip;
}

static inline int stream_socket(void) {
    int fd = socket(asked.is_unix ? AF_UNIX : AF_INET, SOCK_STREAM, 0);
    if (fd < 0) die("socket");
    if (!asked.is_unix && setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, CONGESTION, sizeof CONGESTION - 1) < 0)
        die("TCP_CONGESTION");
    /* An answer in two parts would wait 40 ms for an acknowledgement. Accepted connections inherit it. */
    int one = 1, is_call = is_role("server") || is_role("client");
    if (!asked.is_unix && is_call && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) < 0) die("TCP_NODELAY");
    return fd;
}

static inline int connected(void) {
    union address to;
    socklen_t length = parsed(&to, asked.address);
    int fd = stream_socket();
    if (connect(fd, &to.any, length) < 0) die("connect");
    return fd;
}

/* Listens, and prints where. */
static inline int listening(void) {
    char name[64] = "127.0.0.1:0";
    union address at;
    if (asked.is_unix) snprintf(name, sizeof name, "@peer-%d", getpid());
    socklen_t length = parsed(&at, name);
    int fd = stream_socket();
    if (bind(fd, &at.any, length) < 0) die("bind");
    if (listen(fd, 4096) < 0) die("listen");
    if (!asked.is_unix) {
        if (getsockname(fd, &at.any, &length) < 0) die("getsockname");
        snprintf(name, sizeof name, "127.0.0.1:%u", ntohs(at.ip.sin_port));
    }
    printf("listening on %s\n", name);
    fflush(stdout);
    return fd;
}

static inline int accepted(int listener) {
    int fd = accept(listener, NULL, NULL);
    if (fd < 0) die("accept");
    return fd;
}

static inline void no_waiting(int fd) {
    if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0) die("fcntl");
}

static inline void start(void *(*run)(void *), void *with) {
    pthread_attr_t small;
    pthread_t thread;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK);
    pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &small, run, with)) die("pthread_create");
}

/* Latencies, as a load generator keeps them: 32 steps for each doubling. */
struct histogram {
    uint64_t counts[64 * 32];
};

static inline void recorded(struct histogram *into, uint64_t ns) {
    unsigned doublings = ns < 32 ? 0 : (unsigned)(63 - __builtin_clzll(ns)) - 4;
    into->counts[doublings * 32 + (unsigned)(ns >> doublings) % 32]++;
}
