"use strict";
// The contents are folded where they would push the answer off a phone's screen.
const wide = window.matchMedia("(min-width: 64rem)");
const contents = document.querySelector(".contents details");
const follow = () => { contents.open = wide.matches; };
wide.addEventListener("change", follow);
follow();

// A query, a command: copied whole.
for (const block of document.querySelectorAll("pre")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(block.textContent);
      button.textContent = "Copied";
    } catch {
      window.getSelection().selectAllChildren(block);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  block.before(button);
}
