"use strict";
// The contents are folded where they would push the answer off a phone's screen.
const wide = window.matchMedia("(min-width: 64rem)");
const contents = document.querySelector(".contents details");
const follow = () => { contents.open = wide.matches; };
wide.addEventListener("change", follow);
follow();
