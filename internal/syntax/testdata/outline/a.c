#include <stdio.h>
#define X 1
#define F(a) a
/* Makes it. */
int *foo(int a)
{
  int local;
  return 0;
}
int bar(void);
extern int v, *w;
typedef struct s {
  int a;
  char *b[3];
} T;
enum e { A, B = 2 };
typedef int (*fp)(int);
static const char *names[] = {"a"};
