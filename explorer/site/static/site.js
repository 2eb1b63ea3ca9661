// A page of notebooks: each view is drawn in its place shortly before a reader comes to it.

const AHEAD = "800px";

async function show(figure) {
  const place = figure.querySelector(".book-place");
  const payload = await restored(JSON.parse(figure.querySelector("script").textContent));
  place.replaceChildren();
  mount(place, payload, { side: figure.getAttribute("aria-label") }); // names its landmarks apart from those of others
}

const observer = new IntersectionObserver(
  (entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      observer.unobserve(target);
      show(target);
    }
  },
  { rootMargin: AHEAD },
);
for (const figure of document.querySelectorAll(".book-view")) {
  figure.classList.add("book-steps"); // keeps the height that its view will have, so that nothing moves
  observer.observe(figure);
}

// On a narrow page the contents are above the chapter: closed at first.
if (matchMedia("(max-width: 900px)").matches) document.querySelector(".book-contents details")?.removeAttribute("open");
