module quorate/bench/sender

go 1.26.0
