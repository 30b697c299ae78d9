#!/bin/sh
# Generates a film of a minute: a moving test picture with noise, each frame a picture of its own.
exec ffmpeg -v error -f lavfi -i testsrc2=size=960x540:rate=25,noise=alls=20:allf=t \
  -t "${1:-60}" -c:v mjpeg -q:v 2 "$LAB_FS/film.avi"
