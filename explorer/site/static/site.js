// Script of a notebook's page, which draws each view shortly before it is scrolled into sight.

const AHEAD = "800px";

/** Draw the view of a figure. @returns {Promise<any>} the view */
async function show(figure) {
  const place = figure.querySelector(".book-place");
  const payload = await restored(JSON.parse(figure.querySelector("script").textContent));
  place.replaceChildren();
  return mount(place, payload, { side: figure.getAttribute("aria-label") }); // gives its landmarks unique names
}

const views = new Map();
function drawn(figure) {
  observer.unobserve(figure);
  if (!views.has(figure)) views.set(figure, show(figure));
  return views.get(figure);
}

const observer = new IntersectionObserver(
  (entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      drawn(target);
    }
  },
  { rootMargin: AHEAD },
);
for (const figure of document.querySelectorAll(".book-view")) {
  figure.classList.add("book-steps"); // reserves the view's height, so that drawing it moves nothing
  observer.observe(figure);
  // A link in the text may lead to a view that is not drawn yet.
  figure.addEventListener(HANDOVER, async ({ detail }) => restore(await drawn(figure), new URLSearchParams(detail)));
}
followLinks();

// On a narrow page the contents are above the chapter, and initially closed.
if (matchMedia("(max-width: 900px)").matches) document.querySelector(".book-contents details")?.removeAttribute("open");
