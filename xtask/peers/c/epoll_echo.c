/* The plain epoll echo server that every text book has: one thread, level-triggered, as quick as C makes it.
 * Prints where it listens. A peer to compare with; it shares no code with bytegauge. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BUFFER = 64 * 1024, EVENTS = 512, CONNECTIONS = 65536 };

/* What of an echo the socket did not take yet. */
struct rest {
    char *bytes;
    size_t length;
};

static struct rest rests[CONNECTIONS];
static char buffer[BUFFER];

static void die(const char *what) {
    perror(what);
    exit(1);
}

static void leave(int fd) {
    free(rests[fd].bytes);
    rests[fd] = (struct rest){0};
    close(fd);
}

static void watch(int poll, int fd, int how, unsigned events) {
    struct epoll_event event = {.events = events, .data.fd = fd};
    if (epoll_ctl(poll, how, fd, &event) < 0) die("epoll_ctl");
}

/* Keeps what was not taken and waits until there is room. */
static void keep(int poll, int fd, const char *bytes, size_t length) {
    rests[fd].bytes = malloc(length);
    if (!rests[fd].bytes) die("malloc");
    memcpy(rests[fd].bytes, bytes, length);
    rests[fd].length = length;
    watch(poll, fd, EPOLL_CTL_MOD, EPOLLOUT);
}

static void echo(int poll, int fd) {
    ssize_t got = recv(fd, buffer, sizeof buffer, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
        leave(fd);
        return;
    }
    ssize_t sent = send(fd, buffer, (size_t)got, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) leave(fd);
    else if (sent < got) keep(poll, fd, buffer + (sent < 0 ? 0 : sent), (size_t)(got - (sent < 0 ? 0 : sent)));
}

static void flush(int poll, int fd) {
    struct rest *rest = &rests[fd];
    ssize_t sent = send(fd, rest->bytes, rest->length, MSG_NOSIGNAL);
    if (sent < 0) {
        if (errno != EAGAIN) leave(fd);
        return;
    }
    rest->length -= (size_t)sent;
    memmove(rest->bytes, rest->bytes + sent, rest->length);
    if (rest->length == 0) {
        free(rest->bytes);
        rest->bytes = NULL;
        watch(poll, fd, EPOLL_CTL_MOD, EPOLLIN);
    }
}

int main(void) {
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;
    if (listener < 0) die("socket");
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0) die("bind");
    if (listen(listener, 4096) < 0) die("listen");
    int poll = epoll_create1(0);
    if (poll < 0) die("epoll_create1");
    watch(poll, listener, EPOLL_CTL_ADD, EPOLLIN);
    socklen_t length = sizeof address;
    if (getsockname(listener, (struct sockaddr *)&address, &length) < 0) die("getsockname");
    printf("listening on 127.0.0.1:%u\n", ntohs(address.sin_port));
    fflush(stdout);
    struct epoll_event events[EVENTS];
    for (;;) {
        int ready = epoll_wait(poll, events, EVENTS, -1);
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) {
                int client;
                while ((client = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
                    if (client >= CONNECTIONS) close(client);
                    else watch(poll, client, EPOLL_CTL_ADD, EPOLLIN);
                }
            } else if (rests[fd].length) {
                flush(poll, fd);
            } else {
                echo(poll, fd);
            }
        }
    }
}
