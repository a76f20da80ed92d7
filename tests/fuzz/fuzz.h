#pragma once
/*
 * fuzz - one function per parser that takes any bytes.
 *
 * Linked with libFuzzer (-Dfuzz=true, clang) it searches for bytes that crash, leak or break a property; linked with
 * replay.c it runs the files it is given, which is what the ordinary tests do with the corpus. A broken property
 * aborts.
 */
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
