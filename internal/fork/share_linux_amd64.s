#include "textflag.h"

// func clone(trap, a1, a2, a3 uintptr) (pid uintptr, errno syscall.Errno)
//
// The child goes on with the same stack, and its calls overwrite the return address of this call. A register keeps the
// address: each process has its own registers.
TEXT ·clone(SB),NOSPLIT|NOFRAME,$0-48
	MOVQ	trap+0(FP), AX
	MOVQ	a1+8(FP), DI
	MOVQ	a2+16(FP), SI
	MOVQ	a3+24(FP), DX
	XORL	R10, R10
	XORL	R8, R8
	XORL	R9, R9
	MOVQ	0(SP), R12
	SYSCALL
	MOVQ	R12, 0(SP)
	TESTQ	AX, AX
	JLT	failed
	MOVQ	AX, pid+32(FP)
	MOVQ	$0, errno+40(FP)
	RET
failed:
	NEGQ	AX
	MOVQ	$0, pid+32(FP)
	MOVQ	AX, errno+40(FP)
	RET
