#include "textflag.h"

// func clone(trap, a1, a2, a3 uintptr) (pid uintptr, errno syscall.Errno)
//
// The return address stays in the link register: each process has its own registers.
TEXT ·clone(SB),NOSPLIT|NOFRAME,$0-48
	MOVD	trap+0(FP), R8
	MOVD	a1+8(FP), R0
	MOVD	a2+16(FP), R1
	MOVD	a3+24(FP), R2
	MOVD	ZR, R3
	MOVD	ZR, R4
	MOVD	ZR, R5
	SVC
	TBNZ	$63, R0, failed
	MOVD	R0, pid+32(FP)
	MOVD	ZR, errno+40(FP)
	RET
failed:
	NEG	R0, R0
	MOVD	ZR, pid+32(FP)
	MOVD	R0, errno+40(FP)
	RET
