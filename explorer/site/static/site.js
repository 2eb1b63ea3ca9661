// A page of notebooks: each view is drawn in its place shortly before a reader comes to it.

const AHEAD = "800px";

/** Draws the view of a figure, once. @returns {Promise<any>} the view */
async function show(figure) {
  const place = figure.querySelector(".book-place");
  const payload = await restored(JSON.parse(figure.querySelector("script").textContent));
  place.replaceChildren();
  return mount(place, payload, { side: figure.getAttribute("aria-label") }); // names its landmarks apart from those of others
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
  figure.classList.add("book-steps"); // keeps the height that its view will have, so that nothing moves
  observer.observe(figure);
  // A link in the text leads to a view that is still to be drawn.
  figure.addEventListener(HANDOVER, async ({ detail }) => restore(await drawn(figure), new URLSearchParams(detail)));
}
followLinks();

// On a narrow page the contents are above the chapter: closed at first.
if (matchMedia("(max-width: 900px)").matches) document.querySelector(".book-contents details")?.removeAttribute("open");
