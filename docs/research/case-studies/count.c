#include <stdio.h>
#include <unistd.h>

int main(void)
{
	static char buffer[65536];
	long lines = 0;
	for (ssize_t n; (n = read(0, buffer, sizeof buffer)) > 0;)
		for (ssize_t i = 0; i < n; i++)
			lines += buffer[i] == '\n';
	printf("%ld\n", lines);
}
