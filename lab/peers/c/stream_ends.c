/* The two ends of a stream as a plain program writes them, over TCP on loopback (ADDRESS is a port) or a Unix socket
 * (a path).
 *   stream_ends source ADDRESS BYTES WRITE_SIZE [COMMAND…]  writes so much to whoever connects; once it listens it becomes
 *                                                           COMMAND, and a child serves
 *   stream_ends sink ADDRESS READ_SIZE [PATH]               connects, asks for PATH by HTTP, reads to the end, prints
 *                                                           bytes/s
 * A peer to compare with; it shares no code with bytegauge. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static _Noreturn void fail(const char *what) {
    perror(what);
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int opened(const char *address, int listens) {
    struct sockaddr_in port = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    int is_path = strchr(address, '/') != NULL, one = 1;
    port.sin_port = htons((unsigned short)atoi(address));
    strncpy(path.sun_path, address, sizeof path.sun_path - 1);
    struct sockaddr *to = is_path ? (struct sockaddr *)&path : (struct sockaddr *)&port;
    socklen_t length = is_path ? sizeof path : sizeof port;
    int fd = socket(is_path ? AF_UNIX : AF_INET, SOCK_STREAM, 0);
    if (fd < 0) fail("socket");
    if (!listens) {
        if (connect(fd, to, length) < 0) fail("connect");
        return fd;
    }
    if (is_path) unlink(address);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, to, length) < 0) fail("bind");
    if (listen(fd, 16) < 0) fail("listen");
    return fd;
}

static _Noreturn void serve(int listener, long bytes, size_t size) {
    char *buffer = calloc(1, size);
    if (!buffer) fail("calloc");
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        if (fd < 0) fail("accept");
        for (long left = bytes; left > 0;) {
            ssize_t wrote = write(fd, buffer, (size_t)left < size ? (size_t)left : size);
            if (wrote <= 0) break;
            left -= wrote;
        }
        close(fd);
    }
}

static int sink(const char *address, size_t size, const char *path) {
    char *buffer = malloc(size);
    if (!buffer) fail("malloc");
    int fd = opened(address, 0);
    double began = now();
    if (path && dprintf(fd, "GET %s HTTP/1.0\r\n\r\n", path) < 0) fail("write");
    long total = 0;
    for (;;) {
        ssize_t got = read(fd, buffer, size);
        if (got < 0) fail("read");
        if (got == 0) break;
        total += got;
    }
    printf("%.0f bytes/s\n", (double)total / (now() - began));
    return total > 0 ? 0 : 1;
}

int main(int argc, char **argv) {
    if (argc >= 4 && !strcmp(argv[1], "sink")) return sink(argv[2], (size_t)atol(argv[3]), argc > 4 ? argv[4] : NULL);
    if (argc < 5 || strcmp(argv[1], "source"))
        return fprintf(stderr, "usage: stream_ends source ADDRESS BYTES WRITE_SIZE [COMMAND…]\n"
                               "       stream_ends sink ADDRESS READ_SIZE [PATH]\n"), 2;
    signal(SIGPIPE, SIG_IGN);
    int listener = opened(argv[2], 1);
    if (argc > 5) {
        pid_t child = fork();
        if (child < 0) fail("fork");
        if (child > 0) {
            signal(SIGPIPE, SIG_DFL);
            execvp(argv[5], argv + 5);
            fail(argv[5]);
        }
    }
    serve(listener, atol(argv[3]), (size_t)atol(argv[4]));
}
