#include "textflag.h"

// func int80(number uint32) int32
TEXT ·int80(SB), NOSPLIT, $0-12
	MOVL	number+0(FP), AX
	XORL	BX, BX
	XORL	CX, CX
	XORL	DX, DX
	XORL	SI, SI
	XORL	DI, DI
	INT	$0x80
	MOVL	AX, ret+8(FP)
	RET
