# A small project is compiled and run from the mount, and a second build compiles only the changed
# part.
mkdir -p project/part
cd project
for i in {1..8}; do
    printf '#include "part.h"\nint part%d(void) { return %d; }\n' "$i" "$i" >"part/part$i.c"
    printf 'int part%d(void);\n' "$i" >>part.h
done
{
    printf '#include <stdio.h>\n#include "part.h"\nint main(void) {\n    int sum = 0;\n'
    for i in {1..8}; do printf '    sum += part%d();\n' "$i"; done
    printf '    printf("%%d\\n", sum);\n    return 0;\n}\n'
} >main.c
cat >Makefile <<'END'
parts := $(patsubst %.c,%.o,$(wildcard part/*.c))
program: main.o libparts.a
	gcc -o $@ $^
libparts.a: $(parts)
	ar rcs $@ $^
%.o: %.c part.h
	gcc -O1 -I. -c -o $@ $<
END
make -j4
same "$(./program)" 36 "the program's answer"
same "$(make)" "make: 'program' is up to date." "a second make"

sleep 0.05 # so that the new time is later, however coarse the server's clock
sed -i 's/return 8/return 108/' part/part8.c
same "$(make | grep -c -- '-c -o')" 1 "files compiled after one changed"
same "$(./program)" 136 "the new program's answer"
remount
same "$(./program)" 136 "after a new mount"
