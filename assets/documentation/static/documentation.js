// Makes the pages of the theme accessible: names of landmarks, and scrolling of long lines with the keyboard.

document.querySelector("aside.sidebar-drawer")?.setAttribute("aria-label", "Contents of the site");
document.querySelector("aside.toc-drawer")?.setAttribute("aria-label", "Contents of the page");

const sizes = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
  }
});
for (const code of document.querySelectorAll("article pre")) sizes.observe(code);
