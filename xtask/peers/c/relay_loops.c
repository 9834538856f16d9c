/* Three relays as they are written first: a thread a direction that reads and writes, the same that splices, and one thread with
 * epoll for all. Usage: relay_loops read-write|splice|epoll PORT UPSTREAM_PORT, both of 127.0.0.1.
 * Peers to compare with; they share no code with bytegauge. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BUFFER = 64 * 1024, STACK = 256 * 1024, EVENTS = 512 };

static struct sockaddr_in upstream;

static void die(const char *what) {
    perror(what);
    exit(1);
}

static struct sockaddr_in at(const char *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    address.sin_port = htons((unsigned short)atoi(port));
    return address;
}

static int listening(const char *port, int flags) {
    int one = 1, listener = socket(AF_INET, SOCK_STREAM | flags, 0);
    struct sockaddr_in address = at(port);
    if (listener < 0) die("socket");
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0) die("bind");
    if (listen(listener, 4096) < 0) die("listen");
    return listener;
}

/* The other side of a connection that was accepted; without one that is reset. */
static int joined(int client) {
    int one = 1, server = socket(AF_INET, SOCK_STREAM, 0);
    if (server >= 0 && connect(server, (struct sockaddr *)&upstream, sizeof upstream) == 0) {
        setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        return server;
    }
    struct linger reset = {.l_onoff = 1};
    setsockopt(client, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    close(client);
    if (server >= 0) close(server);
    return -1;
}

/* A thread a direction. */

struct pair {
    int legs[2];
    atomic_int open;
};

struct way {
    struct pair *pair;
    int from, to;
};

static void ended(struct way *way, int in_order) {
    struct pair *pair = way->pair;
    if (in_order) {
        shutdown(way->to, SHUT_WR);
    } else {
        shutdown(way->from, SHUT_RDWR);
        shutdown(way->to, SHUT_RDWR);
    }
    free(way);
    if (atomic_fetch_sub(&pair->open, 1) > 1) return;
    close(pair->legs[0]);
    close(pair->legs[1]);
    free(pair);
}

static void *copies(void *argument) {
    struct way *way = argument;
    char buffer[BUFFER];
    ssize_t got;
    while ((got = read(way->from, buffer, sizeof buffer)) > 0) {
        for (ssize_t gone = 0, n; gone < got; gone += n) {
            n = write(way->to, buffer + gone, (size_t)(got - gone));
            if (n < 0) return ended(way, 0), NULL;
        }
    }
    return ended(way, got == 0), NULL;
}

static void *splices(void *argument) {
    struct way *way = argument;
    int through[2];
    if (pipe(through) < 0) return ended(way, 0), NULL;
    ssize_t got, n = 0;
    while ((got = splice(way->from, NULL, through[1], NULL, BUFFER, SPLICE_F_MOVE)) > 0) {
        for (; got > 0 && n >= 0; got -= n) n = splice(through[0], NULL, way->to, NULL, (size_t)got, SPLICE_F_MOVE);
        if (n < 0) break;
    }
    close(through[0]);
    close(through[1]);
    return ended(way, got == 0 && n >= 0), NULL;
}

static void with_threads(int listener, void *(*carries)(void *)) {
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK);
    pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
    for (;;) {
        int client = accept(listener, NULL, NULL);
        int server = client < 0 ? -1 : joined(client);
        if (server < 0) continue;
        struct pair *pair = malloc(sizeof *pair);
        if (!pair) die("malloc");
        *pair = (struct pair){.legs = {client, server}, .open = 2};
        for (int up = 0; up < 2; up++) {
            struct way *way = malloc(sizeof *way);
            if (!way) die("malloc");
            *way = (struct way){pair, up ? server : client, up ? client : server};
            pthread_t thread;
            if (pthread_create(&thread, &small, carries, way)) die("pthread_create");
        }
    }
}

/* One thread for all. */

struct half {
    char *bytes;
    size_t from, to;
    int ended;
};

struct both;

/* What an event is about: one leg of a connection. */
struct leg {
    struct both *both;
    int number;
};

struct both {
    struct leg told[2];
    int legs[2];
    int hung_up;
    struct half halves[2];
    struct both *next;
};

/* Passes on what came on a leg, as far as the other one takes it. A read that leaves room has taken all there was; once a side has
 * hung up there is the end to be read, of which nothing is told twice. */
static int pass(struct both *both, int leg) {
    struct half *half = &both->halves[leg];
    while (!half->ended) {
        size_t got = 0;
        if (half->from == half->to) {
            ssize_t n = read(both->legs[leg], half->bytes, BUFFER);
            if (n < 0) return errno == EAGAIN ? 0 : -1;
            if (n == 0) {
                half->ended = 1;
                shutdown(both->legs[1 - leg], SHUT_WR);
                return 0;
            }
            half->from = 0;
            half->to = got = (size_t)n;
        }
        ssize_t n = write(both->legs[1 - leg], half->bytes + half->from, half->to - half->from);
        if (n < 0) return errno == EAGAIN ? 0 : -1;
        half->from += (size_t)n;
        if (half->from == half->to && got > 0 && got < BUFFER && !both->hung_up) return 0;
    }
    return 0;
}

static void watch(int poll, int fd, unsigned events, void *with) {
    struct epoll_event event = {.events = events, .data.ptr = with};
    if (epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event) < 0) die("epoll_ctl");
}

static void welcome(int poll, int listener) {
    int client;
    while ((client = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        int server = joined(client);
        if (server < 0) continue;
        fcntl(server, F_SETFL, O_NONBLOCK);
        struct both *both = calloc(1, sizeof *both);
        if (!both) die("calloc");
        for (int leg = 0; leg < 2; leg++) {
            both->legs[leg] = leg ? server : client;
            both->halves[leg].bytes = malloc(BUFFER);
            if (!both->halves[leg].bytes) die("malloc");
            both->told[leg] = (struct leg){both, leg};
            watch(poll, both->legs[leg], EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, &both->told[leg]);
        }
    }
}

static void with_epoll(int listener) {
    int poll = epoll_create1(0);
    if (poll < 0) die("epoll_create1");
    watch(poll, listener, EPOLLIN, NULL);
    struct epoll_event events[EVENTS];
    for (;;) {
        struct both *over = NULL;
        int ready = epoll_wait(poll, events, EVENTS, -1);
        for (int i = 0; i < ready; i++) {
            struct leg *leg = events[i].data.ptr;
            if (!leg) {
                welcome(poll, listener);
                continue;
            }
            struct both *both = leg->both;
            if (both->legs[0] < 0) continue;
            int hung_up = (events[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0, other = 1 - leg->number;
            both->hung_up |= hung_up;
            /* A leg that has room again is the other one's business if that has something left. */
            int comes = (events[i].events & EPOLLIN) || hung_up ? pass(both, leg->number) : 0;
            int goes = both->halves[other].from < both->halves[other].to || hung_up ? pass(both, other) : 0;
            if (comes < 0 || goes < 0 || (both->halves[0].ended && both->halves[1].ended)) {
                close(both->legs[0]);
                close(both->legs[1]);
                /* Its other leg may be among these events, too. */
                both->legs[0] = -1;
                both->next = over;
                over = both;
            }
        }
        while (over) {
            struct both *next = over->next;
            free(over->halves[0].bytes);
            free(over->halves[1].bytes);
            free(over);
            over = next;
        }
    }
}

int main(int argc, char **argv) {
    if (argc != 4) return fprintf(stderr, "usage: relay_loops read-write|splice|epoll PORT UPSTREAM_PORT\n"), 2;
    signal(SIGPIPE, SIG_IGN);
    upstream = at(argv[3]);
    if (strcmp(argv[1], "epoll") == 0) with_epoll(listening(argv[2], SOCK_NONBLOCK));
    else with_threads(listening(argv[2], 0), strcmp(argv[1], "splice") == 0 ? splices : copies);
    return 0;
}
