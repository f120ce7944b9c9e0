// What is wrong with a page for those who do not see it well, or use no mouse: a list of sentences.
() => {
  const wrong = [];
  const all = (query) => [...document.querySelectorAll(query)].filter((one) => one.checkVisibility({ visibilityProperty: true }));
  const named = (one) => {
    const by = one.getAttribute("aria-labelledby");
    if (by) return by.split(" ").map((id) => document.getElementById(id)?.textContent ?? "").join(" ").trim();
    return (one.getAttribute("aria-label") ?? one.labels?.[0]?.textContent ?? one.textContent ?? "").trim();
  };
  const where = (one) => `${one.tagName.toLowerCase()}.${one.getAttribute("class") ?? ""}`;

  // --- names, roles, structure
  for (const one of all("a, button, input, summary, [role=img], [role=region], section, ul[aria-label]")) {
    if (!named(one)) wrong.push(`${where(one)} has no name`);
  }
  for (const one of all("img, svg")) {
    if (!one.hasAttribute("alt") && one.getAttribute("role") !== "img") wrong.push(`${where(one)} has no text`);
  }
  for (const [name, count] of [["main", 1], ["header", 1], ["footer", 1], ["h1", 1], ["[aria-live=polite]", 1]]) {
    if (all(name).length !== count) wrong.push(`${all(name).length} of ${name}, not ${count}`);
  }
  if (!document.documentElement.lang || !document.title) wrong.push("the page has no language or no title");
  let level = 0;
  for (const one of all("h1, h2, h3, h4")) {
    const next = Number(one.tagName[1]);
    if (next > level + 1) wrong.push(`${where(one)} "${one.textContent}" comes after a heading of level ${level}`);
    level = next;
  }
  const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) wrong.push(`two have the id ${id}`);
  for (const one of document.querySelectorAll("ul > :not(li), ol > :not(li), :not(ul, ol) > li")) wrong.push(`${where(one)} in a list`);
  for (const one of document.querySelectorAll("th")) if (!one.scope) wrong.push("a th without scope");
  for (const one of document.querySelectorAll("[tabindex]")) if (one.tabIndex > 0) wrong.push(`${where(one)} has a tabindex`);
  for (const one of all("button, summary, input")) {
    const { width, height } = one.getBoundingClientRect();
    if (Math.min(width, height) < 24) wrong.push(`${where(one)} is ${width} × ${height} pixels`);
  }

  // --- contrast of text
  const channels = (text) => text.match(/[\d.]+/g).map(Number);
  const luminance = ([red, green, blue]) => {
    const [r, g, b] = [red, green, blue].map((value) => {
      const part = value / 255;
      return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (one, two) => {
    const [low, high] = [luminance(one), luminance(two)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  // Every colour that may be behind an element: those of patterns as well.
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const style = getComputedStyle(one);
      const pattern = style.backgroundImage.match(/rgba?\([^)]*\)/g) ?? [];
      const own = channels(style.backgroundColor);
      const found = pattern.map(channels).filter((colour) => colour[3] !== 0);
      if (own[3] === undefined || own[3] === 1) found.push(own);
      if (found.length) return found;
    }
    return [[255, 255, 255]];
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.textContent.trim();
    if (!text || !element.checkVisibility({ visibilityProperty: true }) || element.closest(".skip, .aloud")) continue;
    const style = getComputedStyle(element);
    const pixels = parseFloat(style.fontSize);
    const large = pixels >= 24 || (pixels >= 18.66 && Number(style.fontWeight) >= 700);
    const least = Math.min(...behind(element).map((colour) => ratio(channels(style.color), colour)));
    if (least < (large ? 3 : 4.5)) wrong.push(`"${text}" in ${where(element)} has a contrast of ${least.toFixed(2)}`);
  }
  return wrong;
};
