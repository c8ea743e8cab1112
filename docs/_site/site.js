// The theme's search is a dialog without a name.
document.querySelector('[data-md-component="search"]')?.setAttribute("aria-label", "Search");
