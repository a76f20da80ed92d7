#pragma once
/*
 * sanitized - whether this is a build for the sanitizers (AddressSanitizer, ThreadSanitizer), whose run-time maps
 * terabytes, handles signals and asks the kernel for more than a worker may. SPD_SANITIZED is 1 or 0, for #if too.
 */
#if defined(__has_feature) /* of clang; gcc has macros */
#define SPD_SANITIZED_CLANG (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define SPD_SANITIZED_CLANG 0
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || SPD_SANITIZED_CLANG
#define SPD_SANITIZED 1
#else
#define SPD_SANITIZED 0
#endif
