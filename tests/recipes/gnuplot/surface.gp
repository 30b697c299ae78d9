# A coloured surface of a large grid: gnuplot keeps every point in memory and visits all of them
# several times, first to find the ranges, then to sort and draw the quadrangles.
set terminal png size 1200, 900
set output "/dev/null"
set samples points
set isosamples points
set pm3d depthorder
set palette defined (0 "blue", 1 "white", 2 "red")
splot [-8:8] [-8:8] sin(sqrt(x * x + y * y)) / (1 + 0.1 * x * x) * cos(y) notitle
