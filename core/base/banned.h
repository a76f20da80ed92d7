#pragma once
/*
 * banned - misuse-prone calls of the C library, turned into compile errors.
 *
 * The build includes this file in front of every source of ours. Each name has a safer relative; where there is none,
 * the call does not belong into this program.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SP_BANNED(name) sorry_##name##_is_banned

#undef strcpy
#define strcpy(to, from) SP_BANNED(strcpy) /* snprintf, memcpy with a checked size */
#undef strcat
#define strcat(to, from) SP_BANNED(strcat) /* sp_buf */
#undef strncpy
#define strncpy(to, from, size) SP_BANNED(strncpy) /* does not terminate: snprintf */
#undef strncat
#define strncat(to, from, size) SP_BANNED(strncat)
#undef sprintf
#define sprintf(...) SP_BANNED(sprintf) /* snprintf */
#undef vsprintf
#define vsprintf(to, format, args) SP_BANNED(vsprintf)
#undef gets
#define gets(to) SP_BANNED(gets)
#undef strtok
#define strtok(text, separators) SP_BANNED(strtok) /* hidden state: strchr, strspn */
#undef atoi
#define atoi(text) SP_BANNED(atoi) /* cannot fail: strtoll with a check */
#undef atol
#define atol(text) SP_BANNED(atol)
#undef atoll
#define atoll(text) SP_BANNED(atoll)
#undef atof
#define atof(text) SP_BANNED(atof)
#undef alloca
#define alloca(size) SP_BANNED(alloca) /* no stack that input can size */
#undef gmtime
#define gmtime(time) SP_BANNED(gmtime) /* hidden state: gmtime_r */
#undef localtime
#define localtime(time) SP_BANNED(localtime)
#undef ctime
#define ctime(time) SP_BANNED(ctime)
#undef asctime
#define asctime(tm) SP_BANNED(asctime)
#undef rand
#define rand() SP_BANNED(rand) /* not reproducible: results never depend on chance */
#undef system
#define system(command) SP_BANNED(system)
#undef tmpnam
#define tmpnam(to) SP_BANNED(tmpnam)
#undef mktemp
#define mktemp(template) SP_BANNED(mktemp)
