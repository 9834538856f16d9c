/* A thread for every connection, send(2) and recv(2). See peer.h. */
#include "peer.h"

static void *writes(void *with) {
    int fd = (int)(intptr_t)with;
    char *bytes = memory(asked.size);
    for (ssize_t n; (n = send(fd, bytes, asked.size, MSG_NOSIGNAL)) > 0;) counted((uint64_t)n);
    return NULL;
}

static void *reads(void *with) {
    int fd = (int)(intptr_t)with;
    char *bytes = memory(asked.size);
    for (ssize_t n; (n = recv(fd, bytes, asked.size, 0)) > 0;) counted((uint64_t)n);
    return NULL;
}

/* Returns whatever comes. */
static void *serves(void *with) {
    int fd = (int)(intptr_t)with;
    char *bytes = memory(SERVER_READ);
    for (ssize_t n; (n = recv(fd, bytes, SERVER_READ, 0)) > 0;) {
        if (send(fd, bytes, (size_t)n, MSG_NOSIGNAL) != n) break;
        counted((uint64_t)n);
    }
    close(fd);
    return NULL;
}

static void *calls(void *with) {
    int fd = (int)(intptr_t)with;
    char *bytes = memory(asked.size), *reply = memory(asked.size);
    struct histogram *latencies = calloc(1, sizeof *latencies);
    if (!latencies) die("calloc");
    for (uint64_t began = now_ns();;) {
        if (send(fd, bytes, asked.size, MSG_NOSIGNAL) != (ssize_t)asked.size) break;
        size_t got = 0;
        for (ssize_t n; got < asked.size; got += (size_t)n) {
            n = recv(fd, reply + got, asked.size - got, 0);
            if (n <= 0) return NULL;
        }
        uint64_t ended = now_ns();
        recorded(latencies, ended - began);
        began = ended;
        counted(asked.size);
    }
    return NULL;
}

int main(int argc, char **argv) {
    arguments(argc, argv);
    if (is_role("reader")) {
        reads((void *)(intptr_t)accepted(listening()));
    } else if (is_role("writer")) {
        writes((void *)(intptr_t)connected());
    } else if (is_role("server")) {
        for (int listener = listening();;) start(serves, (void *)(intptr_t)accepted(listener));
    } else {
        int fds[DESCRIPTORS];
        for (int i = 0; i < asked.connections; i++) fds[i] = connected();
        for (int i = 0; i < asked.connections; i++) start(calls, (void *)(intptr_t)fds[i]);
        pause();
    }
    return 0;
}
